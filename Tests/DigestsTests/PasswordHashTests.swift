import Digests
import Dispatch
import Testing

@Suite struct PasswordHashTests {
    @Test func theRightPasswordFits() throws {
        let hash = try PasswordHash.make(password: "päss wörd")
        #expect(hash.hasPrefix("$scrypt$ln=15,r=8,p=1$"))
        #expect(try PasswordHash.verify(password: "päss wörd", hash: hash))
        #expect(try !PasswordHash.verify(password: "pass word", hash: hash))
        #expect(try !PasswordHash.verify(password: "", hash: hash))
        #expect(try PasswordHash.make(password: "päss wörd") != hash, "each hash has its own salt")
    }

    /// 32 MiB with the usual parameters, however many ask at once.
    @Test func theMemoryOfAComputationIsKnownWhileItRunsAndIsThatOfOne() throws {
        let hash = try PasswordHash.make(password: "x")
        let group = DispatchGroup()
        for number in 0..<4 {
            // A queue of its own has a thread of its own.
            DispatchQueue(label: "hash-\(number)").async(group: group) {
                for _ in 0..<2 { _ = try? PasswordHash.verify(password: "y", hash: hash) }
            }
        }
        var seen = 0
        while group.wait(timeout: .now()) == .timedOut { seen = max(seen, PasswordHash.memoryInUse) }
        #expect(seen == 32 << 20)
    }

    @Test func aPasswordBeyondTheLimitIsNeverHashed() throws {
        let long = String(repeating: "x", count: DigestLimits.passwordBytes + 1)
        #expect(throws: DigestError.passwordTooLong(bytes: 1025, limit: 1024)) { try PasswordHash.make(password: long) }
        let hash = "$scrypt$ln=4,r=1,p=1$AAAAAAAAAAA=$AAAAAAAAAAA="
        #expect(try !PasswordHash.verify(password: long, hash: hash))
    }

    @Test(arguments: [
        "", "$scrypt$", "plain", "$scrypt$ln=15,r=8$AAAAAAAAAAA=$AAAAAAAAAAA=", "$scrypt$ln=15,r=8,p=1$AAAAAAAAAAA=",
        "$scrypt$ln=15,r=8,p=1$!$AAAAAAAAAAA=", "$scrypt$ln=15,r=8,p=1$AAAAAAAAAAA=$", "$scrypt$r=8,ln=15,p=1$AAAAAAAAAAA=$AAAAAAAAAAA=",
        "$scrypt$ln=-1,r=8,p=1$AAAAAAAAAAA=$AAAAAAAAAAA=", "$scrypt$ln=99999999999,r=8,p=1$AAAAAAAAAAA=$AAAAAAAAAAA=",
        "$scrypt$ln=15,r=8,p=1$AAAAAAAAAAA=$AAAAAAAAAAA=$", "$scrypt$ln=30,r=1024,p=16$AAAAAAAAAAA=$AAAAAAAAAAA=",
        "$scrypt$ln=0,r=8,p=1$AAAAAAAAAAA=$AAAAAAAAAAA=", "$scrypt$ln=4,r=8,p=17$AAAAAAAAAAA=$AAAAAAAAAAA=",
    ])
    func aMalformedHashIsATypedError(hash: String) {
        #expect(throws: DigestError.self) { try PasswordHash.verify(password: "x", hash: hash) }
        #expect(throws: DigestError.self) { try PasswordHash.validate(hash) }
    }
}
