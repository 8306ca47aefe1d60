/// Numbers with nouns, for messages.
public enum Plural {
    /// `1 document`, `2 documents`.
    ///
    /// - Parameter many: the plural, unless it is the noun with an s.
    public static func count(_ number: some BinaryInteger, _ noun: String, _ many: String? = nil) -> String {
        "\(number) \(number == 1 ? noun : many ?? noun + "s")"
    }
}
