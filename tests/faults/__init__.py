"""Faults made on purpose: killed writers, full disks, failing calls of the system, interrupts."""
