"""Made recordings of work sites: timing, sounds, ambience, room and microphone, from a seed."""
