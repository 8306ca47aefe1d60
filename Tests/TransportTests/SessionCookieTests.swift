import Environment
import Synchronization
import Testing
import Transport

private final class Clock: TimeSource {
    let seconds = Mutex<Int64>(1_000_000_000) // 2001-09-09T01:46:40Z
    func wallSeconds() -> Int64 { seconds.withLock { $0 } }
    func monotonicNanoseconds() -> UInt64 { 0 }
    func sleep(nanoseconds: UInt64) async throws {}
    func advance(_ by: Int64) { seconds.withLock { $0 += by } }
}

@Suite struct SessionCookieTests {
    @Test(arguments: [
        ("SyncGatewaySession=abc; Path=/db; Max-Age=86400; HttpOnly", "SyncGatewaySession=abc"),
        ("AuthSession=YWRh; Version=1; Expires=Sun, 09-Sep-2001 02:46:40 GMT; Path=/", "AuthSession=YWRh"),
        ("s=1; Expires=Sun, 09 Sep 2001 02:46:40 GMT", "s=1"), ("s=", "s="), (" s = a b ;Secure;SameSite=Lax", "s=a b"),
        // Also for a parent domain: it goes to this host and to no other in any case.
        ("s=1; Domain=.example.com; Path=/", "s=1"),
        // Past their end, or with less than a minute left.
        ("s=1; Expires=Sun, 09 Sep 2001 01:46:00 GMT", nil), ("s=1; Max-Age=0", nil), ("s=1; Max-Age=-5", nil), ("s=1; Max-Age=59", nil),
        ("s=1; Max-Age=0; Expires=Sun, 09 Sep 2031 01:46:00 GMT", nil),
        // Nothing that could be sent.
        ("", nil), ("=x", nil), ("nonsense", nil), ("s=a\r\nX: y", nil), ("s=\(String(repeating: "x", count: 5000))", nil),
        ("s=1; Expires=yesterday; Max-Age=much", "s=1"), ("s=1; Max-Age=9223372036854775807", "s=1"),
    ] as [(String, String?)])
    func whatIsKept(header: String, sent: String?) {
        let clock = Clock()
        let cookies = SessionCookies(time: clock)
        cookies.receive(["Set-Cookie": header])
        #expect(cookies.header(isSecure: true) == sent)
    }

    @Test func aSessionIsLeftAloneAMinuteBeforeItEnds() {
        let clock = Clock()
        let cookies = SessionCookies(time: clock)
        cookies.receive(["Set-Cookie": "s=1; Max-Age=600", "set-cookie": "t=2; Secure"])
        #expect(cookies.header(isSecure: true) == "s=1; t=2")
        #expect(cookies.header(isSecure: true, without: "s") == "t=2")
        #expect(cookies.header(isSecure: false) == "s=1")
        clock.advance(539)
        #expect(cookies.header(isSecure: false) == "s=1")
        clock.advance(1)
        #expect(cookies.header(isSecure: false) == nil)
        cookies.receive(["Set-Cookie": "s=2; Max-Age=600"])
        #expect(cookies.header(isSecure: true) == "t=2; s=2")
        cookies.forget()
        #expect(cookies.header(isSecure: true) == nil)
    }

    @Test func aServerCannotMakeUsKeepEverything() {
        let cookies = SessionCookies(time: SystemTime())
        for number in 0..<1000 { cookies.receive(["Set-Cookie": "c\(number)=x"]) }
        #expect(cookies.header(isSecure: true)?.split(separator: ";").count == 16)
    }
}
