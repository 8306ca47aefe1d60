import BLIP
import NIOCore

@testable import Replication

/// A place where we answer differently on purpose.
struct Difference {
    private var file: String
    private var profile: String
    var reason: String
    private var matchesRequest: @Sendable (IncomingRequest) -> Bool
    var holds: @Sendable (IncomingReply) -> Bool

    init(
        file: String, profile: String, reason: String, _ matchesRequest: @escaping @Sendable (IncomingRequest) -> Bool,
        holds: @escaping @Sendable (IncomingReply) -> Bool
    ) {
        self.file = file
        self.profile = profile
        self.reason = reason
        self.matchesRequest = matchesRequest
        self.holds = holds
    }

    init(file: String, profile: String, reason: String, _ holds: @escaping @Sendable (IncomingReply) -> Bool) {
        self.init(file: file, profile: profile, reason: reason, { _ in true }, holds: holds)
    }

    func matches(_ name: String, _ request: IncomingRequest) -> Bool {
        name.hasSuffix(file) && request.profile == profile && matchesRequest(request)
    }

    private static func refused(_ code: Int, _ reply: IncomingReply) -> Bool { reply.error?.domain == "HTTP" && reply.error?.code == code }

    private static func status(_ status: Int, _ reply: IncomingReply, row: Int = 0) -> Bool {
        ChangeRows.readProposalReply([UInt8](reply.body.readableBytesView), rows: row + 1).last?.status == status && reply.error == nil
    }

    static let all: [Difference] = [
        Difference(file: "", profile: "rev", reason: "the base that the server had is not here, so the whole body is requested") {
            $0.properties["deltaSrc"] != nil
        } holds: { refused(422, $0) || $0.error == nil },
        Difference(file: "probe-rev-underscore.jsonl", profile: "rev", reason: "reserved keys that nobody knows are refused, as at Sync Gateway") {
            refused(400, $0)
        },
        Difference(file: "probe-changes-as-pusher.jsonl", profile: "changes", reason: "no conflicts are kept here, so changes must be proposed, as at Sync Gateway") {
            json($0.body)?.asArray?.isEmpty == false
        } holds: { refused(409, $0) },
        Difference(file: "probe-changes-as-pusher.jsonl", profile: "changes", reason: "domain HTTP: after BLIP/400 a client stops for good") {
            json($0.body)?.asObject != nil
        } holds: { refused(400, $0) },
        Difference(file: "probe-no-getCollections.jsonl", profile: "getCheckpoint", reason: "clients without collections (2.x, 3.0, 3.2) are served") { refused(404, $0) },
        Difference(file: "probe-no-getCollections.jsonl", profile: "setCheckpoint", reason: "the same") { $0.properties["rev"] == "1-cc" },
        Difference(file: "probe-no-getCollections.jsonl", profile: "subChanges", reason: "the same") { $0.error == nil },
        Difference(file: "probe-no-getCollections.jsonl", profile: "proposeChanges", reason: "the same") { $0.error == nil },
        Difference(file: "probe-no-getCollections.jsonl", profile: "getCollections", reason: "by then the mode is decided") { $0.error?.domain == "BLIP" && $0.error?.code == 400 },
        Difference(file: "probe-proveAttachment.jsonl", profile: "proveAttachment", reason: "domain HTTP: after BLIP/400 a client stops for good") {
            $0.body.readableBytes == 0
        } holds: { refused(400, $0) },
        Difference(file: "probe-proveAttachment.jsonl", profile: "getAttachment", reason: "HTTP's numbers mean the same to every peer") {
            $0.properties["digest"] == "nonsense"
        } holds: { refused(400, $0) },
        Difference(file: "probe-proveAttachment.jsonl", profile: "proveAttachment", reason: "nothing is revealed about a blob that belongs to none of the peer's documents") {
            _ in true
        } holds: { refused(403, $0) },
        Difference(file: "probe-proveAttachment.jsonl", profile: "getAttachment", reason: "the same, as at Sync Gateway") { _ in true } holds: { refused(403, $0) },
        Difference(file: "probe-push-rev-variants.jsonl", profile: "rev", reason: "a history that does not descend is HTTP/422") {
            $0.properties["rev"]?.hasPrefix("1-") == true && $0.properties["history"] != nil
        } holds: { refused(422, $0) },
        Difference(file: "probe-rev-badhistory.jsonl", profile: "rev", reason: "the same") {
            $0.properties["id"] == "bh3"
        } holds: { refused(422, $0) },
        Difference(file: "probe-rev-badhistory.jsonl", profile: "rev", reason: "gaps are those of a peer that keeps fewer revisions, which could never send them otherwise") {
            $0.properties["id"] == "bh"
        } holds: { $0.error == nil },
        Difference(file: "probe-push-rev-variants.jsonl", profile: "proposeChanges", reason: "a document that is not here accepts any parent, as at Sync Gateway") {
            json($0.body)?.asArray?.first?.asArray?.dropFirst(2).first?.asString?.isEmpty == false
        } holds: { $0.error == nil },
        Difference(file: "probe-rev-update.jsonl", profile: "proposeChanges", reason: "the same") {
            json($0.body)?.asArray?.first?.asArray?.dropFirst(2).first?.asString?.isEmpty == false
        } holds: { $0.error == nil },
        Difference(file: "probe-push-unusual.jsonl", profile: "proposeChanges", reason: "one bad row does not spoil the others") {
            String(buffer: $0.body).contains("xyz")
        } holds: { status(400, $0, row: 2) },
        Difference(file: "probe-rev-vvrev.jsonl", profile: "proposeChanges", reason: "the same") { status(400, $0) },
        Difference(file: "probe-rev-longid.jsonl", profile: "proposeChanges", reason: "an id that is too long is the document's error, 400") {
            (json($0.body)?.asArray?.first?.asArray?.first?.asString?.utf8.count ?? 0) > 240
        } holds: { status(400, $0) },
        Difference(file: "probe-rev-arraybody.jsonl", profile: "rev", reason: "a body that is not an object is HTTP/400") { $0.properties["id"] == "arr" } holds: { refused(400, $0) },
        Difference(file: "probe-rev-badjson.jsonl", profile: "rev", reason: "the same") { $0.properties["id"] == "badjson" } holds: { refused(400, $0) },
        Difference(file: "probe-rev-blobwrong.jsonl", profile: "rev", reason: "a blob that does not match its digest is HTTP/400") {
            $0.properties["id"] == "blobwrong"
        } holds: { refused(400, $0) },
        Difference(file: "vv-probe-push-rev-variants.jsonl", profile: "proposeChanges", reason: "versions that went into the current one are known here, as at Sync Gateway") {
            String(buffer: $0.body).contains("18e9000000080000@")
        } holds: { status(304, $0) },
        Difference(file: "vv-probe-rev-history.jsonl", profile: "proposeChanges", reason: "the same") {
            String(buffer: $0.body).contains("18e9000000130000@")
        } holds: { status(304, $0) },
        Difference(file: "vv-probe-rev-update.jsonl", profile: "proposeChanges", reason: "the same") {
            [6, 7].contains($0.number)
        } holds: { status(304, $0) },
    ] + ["badchars", "shortsource", "upperhex", "zerotime", "star"].map {
        Difference(file: "vv-probe-rev-\($0).jsonl", profile: "proposeChanges", reason: "a bad version is already refused when it is proposed, without affecting the others") { status(400, $0) }
    } + [
        Difference(file: "vv-probe-rev-upperhex.jsonl", profile: "rev", reason: "others compare versions as text, so each must have only one spelling") { refused(400, $0) },
        Difference(file: "vv-probe-rev-future.jsonl", profile: "rev", reason: "no edit is lost because a clock is fast: the version is accepted, but our clock does not follow it") { $0.error == nil },
    ] + ["long", "nothex", "odd", "upper", "zerogen"].map {
        Difference(file: "probe-rev-\($0).jsonl", profile: "proposeChanges", reason: "a bad revision id is already refused when it is proposed, not only when the rev arrives") { status(400, $0) }
    }
}
