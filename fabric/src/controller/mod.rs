//! Subsystems, controllers and their admin commands, as pure state machines.
