import Glibc

/// `2026-11-21 14:00:00Z`, as `openssl x509 -dateopt iso_8601` writes it.
func iso(_ seconds: Int64) -> String {
    var time = time_t(seconds)
    var parts = tm()
    gmtime_r(&time, &parts)
    var room = [CChar](repeating: 0, count: 40)
    let count = strftime(&room, room.count, "%Y-%m-%d %H:%M:%SZ", &parts)
    return String(decoding: room[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
}
