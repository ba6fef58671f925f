"""The atlas: results of many implementations as one static site."""
