import Testing
import Encodings

@testable import Digests

@Suite struct DigestVectorTests {
    @Test func sha1OfFIPSExamples() {
        #expect(Hex.encode(SHA1.hash(Array("abc".utf8))) == "a9993e364706816aba3e25717850c26c9cd0d89d")
        #expect(Hex.encode(SHA1.hash([])) == "da39a3ee5e6b4b0d3255bfef95601890afd80709")
    }

    @Test func sha256OfFIPSExample() {
        #expect(Hex.encode(SHA256.hash(Array("abc".utf8))) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
    }

    @Test func piecesGiveTheDigestOfTheWhole() {
        let hasher = SHA1Hasher()
        hasher.update(Array("a".utf8))
        hasher.update([])
        hasher.update("bc".utf8)
        #expect(hasher.finalize() == SHA1.hash(Array("abc".utf8)))
        #expect(hasher.finalize() == SHA1.hash([]), "the hasher starts anew")
    }

    @Test func everyThreadGetsTheSameDigests() async {
        let expected = SHA1.hash(Array("abc".utf8))
        await withTaskGroup(of: Bool.self) { group in
            for _ in 0..<32 {
                group.addTask { (0..<200).allSatisfy { _ in SHA1.hash(Array("abc".utf8)) == expected } }
            }
            for await equal in group { #expect(equal) }
        }
    }

    @Test func hmacOfRFC4231() {
        let key = [UInt8](repeating: 0x0B, count: 20)
        #expect(
            Hex.encode(hmacSHA256(key: key, message: Array("Hi There".utf8)))
                == "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7")
        #expect(
            Hex.encode(hmacSHA256(key: Array("Jefe".utf8), message: Array("what do ya want for nothing?".utf8)))
                == "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
        #expect(
            Hex.encode(hmacSHA256(key: [], message: []))
                == "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad")
    }

    @Test func scryptOfRFC7914() throws {
        let key = try scrypt(password: Array("password".utf8), salt: Array("NaCl".utf8), n: 1024, r: 8, p: 16, length: 64)
        #expect(
            Hex.encode(key)
                == "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"
                + "2eaf30d92e22a3886ff109279d9830dac727afb94a83ee6d8360cbdfa2cc0640")
        let empty = try scrypt(password: [], salt: [], n: 16, r: 1, p: 1, length: 64)
        #expect(Hex.encode(empty).hasPrefix("77d6576238657b203b19ca42c18a0497"))
    }

    @Test func scryptRefusesWhatWouldTakeTheMachine() {
        #expect(throws: DigestError.self) { try scrypt(password: [1], salt: [1], n: 1 << 40, r: 8, p: 1, length: 32) }
        #expect(throws: DigestError.self) { try scrypt(password: [1], salt: [1], n: 1 << 62, r: 1 << 30, p: 1, length: 32) }
        #expect(throws: DigestError.self) { try scrypt(password: [1], salt: [1], n: 1000, r: 8, p: 1, length: 32) }
        #expect(throws: DigestError.self) { try scrypt(password: [1], salt: [1], n: 16, r: 8, p: 1000, length: 32) }
        #expect(throws: DigestError.self) { try scrypt(password: [1], salt: [1], n: 16, r: 8, p: 1, length: 0) }
    }

    @Test func randomBytesDiffer() throws {
        #expect(try randomBytes(32) != randomBytes(32))
        #expect(try randomBytes(0).isEmpty)
    }

    @Test func constantTimeComparison() {
        #expect(constantTimeEquals([1, 2, 3], [1, 2, 3]))
        #expect(constantTimeEquals([], []))
        #expect(!constantTimeEquals([1, 2, 3], [1, 2, 4]))
        #expect(!constantTimeEquals([1, 2, 3], [1, 2]))
    }
}
