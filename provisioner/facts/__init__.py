"""What is read from a host: probes (sh), parsers (text → facts), and how many probes become one script. Pure."""
