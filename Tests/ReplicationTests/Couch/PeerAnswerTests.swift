import Interfaces
import NIOCore
import Testing

@testable import Replication

@Suite struct PeerAnswerTests {
    /// Whether the beginning of an answer that is too long to be collected holds the document.
    @Test(arguments: [
        (#"{"tea":{"missing":["1-a"],"possible_anc"#, true), (" \n{ \"t\\u0065a\" :\t{", true), (#"{"tea":{}}"#, true), (#"{"tea" "#, false),
        (#"{"coffee":{}}"#, false), (#"{"tea":[1]}"#, false), (#"{"te"#, false), (#"{"tea""#, false), (#"{"tea","x":{}}"#, false), ("{}", false), ("{", false),
        (#"["tea",{}]"#, false), (#"{tea:{}}"#, false), ("", false),
    ])
    func beginsWithADocument(_ text: String, _ isIt: Bool) {
        #expect(PeerAnswer(status: 200, body: ByteBuffer(string: text), isTooLarge: true).begins(with: doc("tea")) == isIt)
        #expect(!PeerAnswer(status: 500, body: ByteBuffer(string: text)).begins(with: doc("tea")))
    }
}
