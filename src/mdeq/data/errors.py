"""What is wrong with the data, in words for the person who has it."""


class DataError(ValueError):
    """The data are not what they should be; the message names the file or the folder."""
