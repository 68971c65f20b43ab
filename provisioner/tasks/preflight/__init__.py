"""What must hold before anything changes: one check is one pure function over facts."""
