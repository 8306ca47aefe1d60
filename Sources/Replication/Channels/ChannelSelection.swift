/// A pull of chosen channels, as in Sync Gateway: a filter with their names.
package enum ChannelSelection {
    package static let filter = "sync_gateway/bychannel"

    /// Parses names separated by commas.
    package static func names(_ text: some StringProtocol) -> [String] {
        text.split { $0 == "," }.map { String($0.drop { $0 == " " }) }.filter { !$0.isEmpty }
    }
}
