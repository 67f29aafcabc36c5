"""Output of runs: report pages, exports (subtitles, edit lists, tables), console and progress."""
