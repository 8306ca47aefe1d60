import TestRandomness
import Testing

@testable import Documents

@Suite struct JSONFuzzTests {
    /// The scanner, the canonical form and the value reader agree with the naive reader, on right and on damaged text.
    @Test func fastReadersAgreeWithTheNaiveOne() throws {
        let seed = makeSeed("JSONFuzzTests")
        var maker = JSONMaker(random: SeededGenerator(seed: seed))
        var accepted = 0
        for round in 0..<2_400 {
            let right = maker.document()
            let body = round % 2 == 0 ? right : maker.damage(right)
            let model = NaiveJSON.read(body)
            let note: Comment = "seed \(seed), round \(round), \(text(body))"
            let value = withExactCopy(body) { try? JSONValue(parsing: $0) }
            #expect((value == nil) == (model == nil), note)
            let scan = withExactCopy(body) { try? JSONScanner.scanDocument($0) }
            guard let model, case .object(let members) = model else {
                #expect(scan == nil, note)
                continue
            }
            accepted += 1
            let found = try #require(scan, note)
            let canonical = try CanonicalJSON.bytes(of: body)
            #expect(canonical == model.canonical, note)
            #expect(try CanonicalJSON.bytes(of: body, scan: found) == canonical, note)
            #expect(value?.canonicalBytes() == canonical, note)
            #expect(try CanonicalJSON.bytes(of: canonical) == canonical, note)
            #expect(try JSONValue(parsing: #require(value).serialize()) == value, note)
            if !model.holdsEscapedKey {
                #expect(try JSONScanner.scanDocument(canonical).isCanonical, note)
            }
            if found.isCanonical { #expect(canonical == body, note) }
            #expect(found.isEmpty == members.isEmpty, note)
            #expect(found.hasReservedKeys == members.contains { $0.key.first == UInt8(ascii: "_") }, note)
            if holdsType(model) { #expect(found.mayHoldBlobs, note) }
            let stripped = try ReservedKeys.strip(from: body)
            #expect(try ReservedKeys.all(in: stripped).allSatisfy { $0 == "_attachments" }, note)
        }
        #expect(accepted > 1_200)
    }

    private func holdsType(_ model: NaiveJSON) -> Bool {
        switch model {
        case .object(let members): members.contains { $0.key == Array("@type".utf8) || holdsType($0.value) }
        case .array(let items): items.contains { holdsType($0) }
        default: false
        }
    }
}
