"""Settings every test shares."""

from hypothesis import settings

# Machines differ and are shared; how long an example takes is no property.
settings.register_profile("steady", deadline=None)
settings.load_profile("steady")
