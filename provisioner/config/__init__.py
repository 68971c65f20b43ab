"""What people write, read into the model: inventory, playbook, templates, lock, selection of hosts."""
