import Testing

@testable import TLS

/// What is told of the end of a certificate.
@Suite("Ends of certificates")
struct CertificateEndTests {
    private static let uses: [CertificateEnd.Use] = [.identity("hub"), .authority, .pinned, .server]

    @Test("every use is told from the same second on", arguments: uses)
    func thresholds(_ use: CertificateEnd.Use) throws {
        let certificate = try TestPKI.identity("hub").leaf
        func end(_ left: Int64) -> CertificateEnd? { CertificateEnd(of: certificate, as: use, now: certificate.notAfter - left) }
        #expect(end(30 * 86_400) == nil)
        for (left, words) in [(30 * 86_400 - 1, "CN=hub expires in 29 days ("), (86_400, "CN=hub expires in 1 day ("), (0, "CN=hub expires today ("), (-1, "CN=hub expired at ")] as [(Int64, String)] {
            let told = try #require(end(left))
            let expected = use == .identity("hub") ? words.replacing("CN=hub", with: "the identity hub") : words
            #expect(told.text.contains(expected) && told.text.contains(TimeText.utc(certificate.notAfter)) && !told.remedy.isEmpty, "\(told)")
            #expect(told.expiredAt == (left < 0 ? certificate.notAfter : nil))
            #expect(told.isGrave == (left < 0 && [.identity("hub"), .authority].contains(use)), "\(told)")
        }
    }

    @Test("an authority that has expired is grave unless another one is valid")
    func authorities() throws {
        let (old, new) = (try TestPKI.identity("old", days: (-20, -1)).leaf, try TestPKI.identity("new", days: (-30, 30)).leaf)
        let now = old.notAfter + 1
        for (all, gravity) in [([old], [true]), ([old, new], [false]), ([old, old], [true, true])] {
            let ends = CertificateEnd.ofAuthorities(all, now: now).filter { $0.expiredAt != nil }
            #expect(ends.map(\.isGrave) == gravity && ends.allSatisfy { $0.text.hasSuffix("what it signed is refused since then") }, "\(ends)")
        }
    }

    @Test("what is said of a pin and of a server is what TLS does with their certificates")
    func truth() throws {
        let expired = try TestPKI.identity("old", days: (-20, -1)).leaf
        let pinned = try #require(CertificateEnd(of: expired, as: .pinned, now: expired.notAfter + 1))
        #expect(pinned.text.contains("the pin keeps working, because no dates are checked"))
        let server = try #require(CertificateEnd(of: expired, as: .server, now: expired.notAfter + 1))
        #expect(server.text.hasSuffix("it is refused since then"))
        for (authentication, isAccepted) in [
            (ServerAuthentication(pins: [.certificate(expired)]), true), (ServerAuthentication(acceptsOnlySelfSigned: true), true),
            (ServerAuthentication(unsafelySkipsVerification: true), true), (ServerAuthentication(trustsSystemRoots: false, extraRoots: [expired]), false),
        ] {
            let judge = try ServerJudge(authentication, limits: TLSConnectionLimits())
            let decision = withExtendedLifetime(expired) { judge.judge(leaf: expired.handle, chain: nil, host: "localhost") }
            let wasAccepted = if case .accepted = decision { true } else { false }
            #expect(wasAccepted == isAccepted && authentication.rule.checksDates == !isAccepted, "\(authentication.rule): \(decision)")
        }
    }
}
