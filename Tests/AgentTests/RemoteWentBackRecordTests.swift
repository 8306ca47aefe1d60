import Documents
import Replication
import Testing

@testable import Agent

/// What is remembered of a remote that went back.
@Suite struct RemoteWentBackRecordTests {
    @Test("how often it went back survives a restart; an older record counts as once")
    func times() throws {
        var record = ReplicatorRecord()
        record.wentBack = RemoteWentBack(time: 1_800_000_000, message: "lost", isComparing: true, times: 4)
        #expect(try ReplicatorRecord(json: JSONValue(parsing: record.json.serialize())) == record)
        let earlier = try JSONValue(parsing: Array("{\"remote_went_back\":{\"time\":1800000000,\"message\":\"lost\",\"comparing\":false}}".utf8))
        #expect(ReplicatorRecord(json: earlier).wentBack == RemoteWentBack(time: 1_800_000_000, message: "lost", isComparing: false, times: 1))
    }
}
