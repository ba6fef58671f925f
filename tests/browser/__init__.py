"""Tests in a real browser; they need playwright and Chromium, and are skipped where these are missing."""
