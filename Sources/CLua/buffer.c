// Growable byte buffers outside Lua's memory, and text that is safe to display.
#include "internal.h"

#include <stdlib.h>

bool nj_buffer_reserve(nj_buffer *b, size_t more) {
    if (more <= b->capacity - b->length) return true;
    if (more > SIZE_MAX / 4 || b->length > SIZE_MAX / 4) return false;
    size_t capacity = b->capacity < 256 ? 256 : b->capacity;
    while (capacity - b->length < more) capacity *= 2;
    uint8_t *bytes = realloc(b->bytes, capacity);
    if (bytes == NULL) return false;
    b->bytes = bytes;
    b->capacity = capacity;
    return true;
}

bool nj_buffer_append(nj_buffer *b, const void *bytes, size_t length) {
    if (!nj_buffer_reserve(b, length)) return false;
    if (length > 0) memcpy(b->bytes + b->length, bytes, length);
    b->length += length;
    return true;
}

// Length of the well-formed UTF-8 character at p, or 0.
static size_t character(const uint8_t *p, size_t length) {
    uint8_t c = p[0];
    if (c < 0x80) return 1;
    if (c < 0xC2 || c > 0xF4) return 0;
    size_t n = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (length < n) return 0;
    uint8_t low = 0x80, high = 0xBF; // of the second byte: no overlong forms, surrogates, or beyond U+10FFFF
    if (c == 0xE0) low = 0xA0;
    else if (c == 0xED) high = 0x9F;
    else if (c == 0xF0) low = 0x90;
    else if (c == 0xF4) high = 0x8F;
    if (p[1] < low || p[1] > high) return 0;
    for (size_t i = 2; i < n; i++) {
        if (p[i] < 0x80 || p[i] > 0xBF) return 0;
    }
    return n;
}

bool nj_is_utf8(const uint8_t *p, size_t length) {
    size_t i = 0;
    while (i < length) {
        if (length - i >= 8) {
            uint64_t word;
            memcpy(&word, p + i, 8);
            if ((word & 0x8080808080808080u) == 0) {
                i += 8;
                continue;
            }
        }
        size_t n = character(p + i, length - i);
        if (n == 0) return false;
        i += n;
    }
    return true;
}

size_t nj_escape_line(const char *text, size_t length, char *out, size_t capacity) {
    static const char digits[] = "0123456789abcdef";
    const uint8_t *p = (const uint8_t *)text;
    size_t used = 0, i = 0;
    while (i < length) {
        char piece[8];
        size_t n, step = 1;
        uint8_t c = p[i];
        size_t whole = character(p + i, length - i);
        bool control = c < 0x20 || c == 0x7F || (whole == 2 && c == 0xC2 && p[i + 1] < 0xA0);
        // U+2028 and U+2029 count as line ends for some readers.
        if (whole == 3 && c == 0xE2 && p[i + 1] == 0x80 && (p[i + 2] & 0xFE) == 0xA8) control = true;
        if (whole > 0 && !control) {
            memcpy(piece, p + i, whole);
            n = step = whole;
        } else if (c == '\n' || c == '\r' || c == '\t') {
            piece[0] = '\\';
            piece[1] = c == '\n' ? 'n' : c == '\r' ? 'r' : 't';
            n = 2;
        } else {
            piece[0] = '\\';
            piece[1] = 'x';
            piece[2] = digits[c >> 4];
            piece[3] = digits[c & 15];
            n = 4;
        }
        if (used + n + 3 > capacity) {
            memcpy(out + used, "...", 3); // capacity always leaves room for it
            return used + 3;
        }
        memcpy(out + used, piece, n);
        used += n;
        i += step;
    }
    return used;
}
