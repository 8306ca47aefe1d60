/// Other sites whose pages may use a listener from a browser.
package struct CORSSettings: Sendable, ConfigurationSection {
    /// `https://app.example:8443`, without a path; `*` for every page.
    package var origins: [Located<String>] = []
    /// Whether with cookies and credentials. Default false.
    package var credentials = Located(false)
    package internal(set) var position = SourcePosition.none

    package init() {}

    static let sectionName = "cors"
    static let keys: [Key<CORSSettings>] = [
        Key("origins", \.origins, Form.text("an origin").located.list(atLeast: 1, of: "origins"), required: true,
            "Origins as https://HOST:PORT, without a path; * for every page."),
        Key("credentials", \.credentials, Form<Bool>.boolean.located, "Whether the pages may send cookies and logins."),
    ]

    package static func == (left: Self, right: Self) -> Bool { areSame(left, right) }

    func check(_ reading: inout Reading) {
        for origin in origins where origin.value != "*" {
            let text = origin.value.utf8
            let rest = text.starts(with: "https://".utf8) ? text.dropFirst(8) : text.starts(with: "http://".utf8) ? text.dropFirst(7) : text[text.endIndex...]
            if rest.isEmpty || rest.contains(UInt8(ascii: "/")) {
                reading.report(at: origin.position, "an origin is https://HOST or http://HOST:PORT without a path, found \(ValueQuoting.quoted(origin.value))")
            }
        }
        if credentials.value, let all = origins.first(where: { $0.value == "*" }) {
            reading.report(at: all.position, "with \"credentials\" every origin has to be named: any page could use the login of the person who views it")
        }
    }
}
