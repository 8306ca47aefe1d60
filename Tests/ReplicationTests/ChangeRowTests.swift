import Documents
import Testing

@testable import Replication

/// Change lists and their replies, as real products write them.
struct ChangeRowTests {
    private let limits = ReplicationLimits()
    private let id1 = "1-abcdef0000000000000000000000000000000001"

    private func changes(_ text: String) throws -> [RowResult<OfferedRow>] {
        try ChangeRows.readChanges(Array(text.utf8), limits: limits)
    }

    private func proposals(_ text: String) throws -> [RowResult<ProposedRow>] {
        try ChangeRows.readProposals(Array(text.utf8), limits: limits)
    }

    @Test(arguments: ["", "[]", "null", " [ ] "])
    func theCaughtUpMarker(_ text: String) throws { #expect(try changes(text).isEmpty) }

    @Test(arguments: ["{}", "1", "\"x\"", "[", "[1,]", "nul", "true"])
    func somethingOtherThanAListIsRefused(_ text: String) {
        #expect(performing: { _ = try changes(text) }, throws: { ($0 as? MessageError)?.code == 400 })
        #expect(performing: { _ = try proposals(text) }, throws: { ($0 as? MessageError)?.code == 400 })
    }

    /// A megabyte of text would take fifty as values.
    @Test func aListOfTooManyValuesIsRefusedBeforeItIsRead() {
        for text in ["[[\"d\",\"\(id1)\"\(String(repeating: ",1", count: 20_000))]]", "[\(String(repeating: "[],", count: 10_000))[]]", "{\"a\":[[[[\(String(repeating: "1,", count: 20_000))"] {
            for read in [{ _ = try changes($0) }, { _ = try proposals($0) }] as [(String) throws -> Void] {
                #expect(performing: { try read(text) }, throws: {
                    let error = $0 as? MessageError
                    return error?.code == 413 && error?.message.contains("max_values_per_row") == true
                })
            }
        }
    }

    @Test func anAnswerOfTooManyValuesIsIgnored() {
        let many = "[[\"\(id1)\"]\(String(repeating: ",1", count: 20_000))]"
        #expect(ChangeRows.readChangesReply(Array(many.utf8), rows: 2) == [nil, nil])
        #expect(ChangeRows.readProposalReply(Array(many.utf8), rows: 2).map(\.status) == [500, 500])
        #expect(ChangeRows.readChangesReply(Array("[[\"\(id1)\"],0]".utf8), rows: 2).map { $0?.count } == [1, nil])
    }

    @Test func deletedIsABooleanOrBits() throws {
        for (flag, deleted, removed) in [
            ("", false, false), (",false", false, false), (",true", true, false), (",0", false, false), (",1", true, false),
            (",5", true, false), (",2", false, true), (",3", true, true), (",4", false, true), (",6", false, true),
            (",null", false, false), (",-1", true, false),
        ] {
            guard case .row(let row) = try changes("[[1,\"d\",\"\(id1)\"\(flag)]]")[0] else {
                Issue.record("\(flag) was refused")
                continue
            }
            #expect(row.isDeletion == deleted && row.isAccessRemoved == removed, "\(flag)")
        }
    }

    @Test func sequencesKeepTheirText() throws {
        for (json, expected) in [("7", "7"), ("18446744073709551616", "18446744073709551616"), ("\"3::9\"", "\"3::9\""), ("\"28:7\"", "\"28:7\"")] {
            guard case .row(let row) = try changes("[[\(json),\"d\",\"\(id1)\",0,12]]")[0] else {
                Issue.record("\(json) was refused")
                continue
            }
            #expect(row.sequence.json == expected && row.bodySize == 12)
        }
    }

    @Test func oneBadRowDoesNotSpoilTheOthers() throws {
        let bad = [
            "[]", "[1]", "[1,\"d\"]", "{}", "7", "[null,\"d\",\"\(id1)\"]", "[1,7,\"\(id1)\"]", "[1,\"\",\"\(id1)\"]", "[1,\"_x\",\"\(id1)\"]",
            "[1,\"d\",\"xyz\"]", "[1,\"d\",\"0-ab\"]", "[1,\"d\",\"1-ABCD\"]", "[1,\"d\",\"1-abc\"]", "[1,\"d\",\"17f@AAAAAAAAAAAAAAAAAAAAAA\"]",
            "[1,\"\(String(repeating: "x", count: 241))\",\"\(id1)\"]",
        ]
        for row in bad {
            let read = try changes("[[1,\"a\",\"\(id1)\"],\(row),[3,\"c\",\"\(id1)\"]]")
            #expect(read.count == 3)
            if case .bad = read[1] {} else { Issue.record("\(row) was taken") }
            if case .row(let last) = read[2] { #expect(last.id.text == "c") } else { Issue.record("the row after \(row) was lost") }
        }
    }

    @Test func parentsOfProposals() throws {
        for (json, parent) in [("", nil), (",\"\"", nil), (",null", nil), (",\"\(id1)\"", id1), (",\"\(id1)\",55", id1)] as [(String, String?)] {
            guard case .row(let row) = try proposals("[[\"d\",\"2-bb\"\(json)]]")[0] else {
                Issue.record("\(json) was refused")
                continue
            }
            #expect(row.parent?.text == parent)
        }
        for json in [",7", ",\"zzz\"", ",{}"] {
            if case .row = try proposals("[[\"d\",\"2-bb\"\(json)]]")[0] { Issue.record("\(json) was taken") }
        }
    }

    @Test func listsHaveLimits() {
        let rows = Array(repeating: "[\"d\",\"1-aa\"]", count: limits.maximumRowsInChangeList + 1).joined(separator: ",")
        #expect(performing: { _ = try proposals("[\(rows)]") }, throws: {
            ($0 as? MessageError)?.code == 413 && ($0 as? MessageError)?.message.contains("max_rows_in_change_list") == true
        })
        let long = Array(repeating: UInt8(ascii: " "), count: limits.maximumChangeListBytes + 1)
        #expect(performing: { _ = try ChangeRows.readChanges(long, limits: limits) }, throws: {
            ($0 as? MessageError)?.code == 413 && ($0 as? MessageError)?.message.contains("max_change_list_bytes") == true
        })
    }

    private func statuses(_ text: String, rows: Int = 3) -> [Int] {
        ChangeRows.readProposalReply(Array(text.utf8), rows: rows).map(\.status)
    }

    /// The two defaults are opposite: what a short reply leaves out is wanted if it was proposed, and not wanted if it was announced.
    @Test func shortReplies() {
        #expect(statuses("") == [0, 0, 0])
        #expect(statuses("[]") == [0, 0, 0])
        #expect(statuses("[304]") == [304, 0, 0])
        #expect(statuses("[0,409]") == [0, 409, 0])
        #expect(statuses("[1,2,3,4,5,6]") == [1, 2, 3])
        #expect(ChangeRows.readChangesReply([], rows: 3).allSatisfy { $0 == nil })
        #expect(ChangeRows.readChangesReply(Array("[[]]".utf8), rows: 3).map { $0 != nil } == [true, false, false])
    }

    @Test func repliesWithObjectsNullAndNonsense() {
        let read = ChangeRows.readProposalReply(Array("[{\"status\":409,\"rev\":\"\(id1)\"},null,{},{\"status\":\"x\",\"rev\":7}]".utf8), rows: 4)
        #expect(read[0] == ProposalStatus(status: 409, current: rev(id1)))
        #expect(read[1].status == 0)
        #expect(read[2] == ProposalStatus(status: 409, current: nil) && read[3] == ProposalStatus(status: 409, current: nil))
        // Nothing is sent on the strength of an answer that cannot be read.
        #expect(statuses("{\"a\":1}").allSatisfy { $0 == 500 } && statuses("[").allSatisfy { $0 == 500 })
        let wishes = ChangeRows.readChangesReply(Array("[0,null,[\"\(id1)\",7,\"zz\"],[],409,{},\"x\"]".utf8), rows: 7)
        #expect(wishes.map { $0?.map(\.text) } == [nil, nil, [id1], [], nil, nil, nil])
    }

    @Test func writtenRowsAreJSON() throws {
        var writer = RowWriter(capacity: 10)
        for id in ["a", "quo\"te", "back\\slash", "ä😀"] {
            writer.beginRow()
            writer.number(7)
            writer.escaped(id)
            writer.plain("1-aa")
            writer.endRow()
        }
        writer.number(304)
        let value = try JSONValue(parsing: writer.finish())
        let rows = try #require(value.asArray)
        #expect(rows.count == 5 && rows[4] == 304)
        #expect(rows.prefix(4).map { $0.asArray?[1].asString } == ["a", "quo\"te", "back\\slash", "ä😀"])
        #expect(RowWriter(capacity: 0).finish() == Array("[]".utf8))
    }
}
