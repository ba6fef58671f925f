"""What writes generated pages: claims, sentences of the standard, findings, and what acceptance tests see."""
