"""`mxspec fuzz`: blocks drawn where rules change their answers, in calls of every kind, against a profile."""
