/// A pull of chosen channels, as Sync Gateway has it: a filter with their names.
package enum ChannelSelection {
    package static let filter = "sync_gateway/bychannel"

    /// Names with commas between.
    package static func names(_ text: some StringProtocol) -> [String] {
        text.split { $0 == "," }.map { String($0.drop { $0 == " " }) }.filter { !$0.isEmpty }
    }
}
