"""Korean particles that follow the sound a word ends in: 민아는, 남동생은."""

FIRST_SYLLABLE, LAST_SYLLABLE = 0xAC00, 0xD7A3
FINALS_PER_VOWEL = 28
FINAL_RIEUL = 8

AFTER_VOWEL = {
    "은": "는",
    "이": "가",
    "을": "를",
    "과": "와",
    "으로": "로",
    "이랑": "랑",
    "이라": "라",
    "이야": "야",
    "이에요": "예요",
    "이어야": "여야",
    "이요": "요",
    "호칭": "",
}
"""Particle after a final consonant to particle after a vowel."""

CALLED = "호칭"
"""Not a particle of its own: the -이 that everyday speech puts behind a given name, 민준 to 민준이."""

FINAL_OF_DIGIT = {
    "0": 21,
    "1": FINAL_RIEUL,
    "2": 0,
    "3": 16,
    "4": 0,
    "5": 0,
    "6": 1,
    "7": FINAL_RIEUL,
    "8": FINAL_RIEUL,
    "9": 0,
}
"""Index of the final consonant in the spoken digit: 영 일 이 삼 사 오 육 칠 팔 구; 0 is none."""

FINAL_OF_LETTER = {"l": FINAL_RIEUL, "r": FINAL_RIEUL, "m": 16, "n": 4}
"""Index of the final consonant in the spoken name of a Latin letter; the others end in a vowel."""


def attach(word: str, particle: str) -> str:
    """The word with the form of the particle that its last sound asks for.

    Args:
        word: Any text; signs after the last letter or digit are looked through.
        particle: A key of AFTER_VOWEL, the form that follows a consonant.

    Raises:
        KeyError: The particle is not in AFTER_VOWEL.
    """
    after_vowel = AFTER_VOWEL[particle]
    final = final_consonant(word)
    if not final or (particle == "으로" and final == FINAL_RIEUL):
        return word + after_vowel
    return word + ("이" if particle == CALLED else particle)


def final_consonant(word: str) -> int:
    """Unicode's index (0 to 27) of the consonant that ends the last sounded sign; 0 is a vowel."""
    last = next((sign for sign in reversed(word) if sign.isalnum()), "")
    if last and FIRST_SYLLABLE <= ord(last) <= LAST_SYLLABLE:
        return (ord(last) - FIRST_SYLLABLE) % FINALS_PER_VOWEL
    if last in FINAL_OF_DIGIT:
        return FINAL_OF_DIGIT[last]
    return FINAL_OF_LETTER.get(last.lower(), 0)
