import Glibc
import Testing

/// Links between the pages of the repository lead somewhere.
@Suite("Links between pages")
struct LinkTests {
    @Test("every link in a page leads to a file that is there, and to a heading of it", arguments: LinkTests.pages())
    func lead(_ page: String) {
        let folder = page.contains("/") ? String(page[..<(page.lastIndex(of: "/") ?? page.endIndex)]) + "/" : ""
        for link in Self.links(of: page) where !link.contains(":") {
            let parts = link.split(separator: "#", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            let target = parts[0].isEmpty ? page : folder + parts[0]
            #expect(access("\(SourceFiles.root)/\(target)", R_OK) == 0, "\(page): \(link)")
            if parts.count > 1 { #expect(Self.anchors(of: target).contains(parts[1]), "\(page): \(link)") }
        }
    }

    @Test("README leads to every guide")
    func allAreFound() {
        let links = Self.links(of: "README.md")
        for name in SourceFiles.names(in: "\(SourceFiles.root)/examples/guides") { #expect(links.contains("examples/guides/\(name)"), "\(name)") }
    }

    private static func pages() -> [String] {
        func pages(under folder: String) -> [String] {
            SourceFiles.names(in: "\(SourceFiles.root)/\(folder)").flatMap { name in
                name.hasSuffix(".md") ? ["\(folder)/\(name)"] : name.contains(".") ? [] : pages(under: "\(folder)/\(name)")
            }
        }
        return ["README.md"] + pages(under: "examples") + pages(under: "plugins")
    }

    private static func text(of page: String) -> Substring {
        Substring(String(decoding: SourceFiles.bytes(of: "\(SourceFiles.root)/\(page)"), as: UTF8.self))
    }

    /// What stands in `](…)`.
    private static func links(of page: String) -> [String] {
        text(of: page).split(separator: "]").dropFirst().compactMap { part in
            guard part.first == "(", let end = part.firstIndex(of: ")") else { return nil }
            return String(part[part.index(after: part.startIndex)..<end])
        }
    }

    /// As the sites that show Markdown make them of headings.
    private static func anchors(of page: String) -> Set<String> {
        Set(
            text(of: page).split(separator: "\n").filter { $0.hasPrefix("#") }.map { line in
                String(
                    line.drop { $0 == "#" || $0 == " " }.lowercased().compactMap { character in
                        character == " " ? "-" : character.isLetter || character.isNumber || "_-".contains(character) ? character : nil
                    })
            })
    }
}
