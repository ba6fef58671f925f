"""From a failing input to the smallest one that shows the failure, and to its cause."""
