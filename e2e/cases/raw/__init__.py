"""RAW: speaks the Kafka protocol byte by byte, also where no client would.

Nothing here retries, negotiates or hides an answer; that is what makes it fit to say what a broker does.
"""
