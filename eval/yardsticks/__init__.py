"""Rankings made with knowledge of the answers: what could be reached, not what a system reaches."""
