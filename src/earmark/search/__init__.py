"""Finding moments in what runs hold: by words, and by meaning."""
