import HTTPServer
import NIOCore

/// The dashboard: one page with its style and scripts, embedded in the program. It contains no data of the agent; everything it shows comes
/// from the admin API, with the viewer's token.
enum DashboardRoutes {
    /// `max_page_bytes`: limit for all files together, so that the page opens even over a slow line. A test checks it.
    static let maximumBytes = 150 * 1024

    /// One file of the page.
    private struct File {
        let path: String
        let type: String
        let bytes: [UInt8]
    }

    private static let files = [
        File(path: "", type: "text/html; charset=utf-8", bytes: PackageResources.index_html),
        File(path: "dashboard/style.css", type: "text/css; charset=utf-8", bytes: PackageResources.style_css),
        File(path: "dashboard/icon.svg", type: "image/svg+xml", bytes: PackageResources.icon_svg),
        File(path: "dashboard/main.js", type: script, bytes: PackageResources.main_js),
        File(path: "dashboard/api.js", type: script, bytes: PackageResources.api_js),
        File(path: "dashboard/dom.js", type: script, bytes: PackageResources.dom_js),
        File(path: "dashboard/overview.js", type: script, bytes: PackageResources.overview_js),
        File(path: "dashboard/charts.js", type: script, bytes: PackageResources.charts_js),
        File(path: "dashboard/listeners.js", type: script, bytes: PackageResources.listeners_js),
        File(path: "dashboard/replicators.js", type: script, bytes: PackageResources.replicators_js),
        File(path: "dashboard/plugins.js", type: script, bytes: PackageResources.plugins_js),
        File(path: "dashboard/conflicts.js", type: script, bytes: PackageResources.conflicts_js),
        File(path: "dashboard/documents.js", type: script, bytes: PackageResources.documents_js),
        File(path: "dashboard/log.js", type: script, bytes: PackageResources.log_js),
    ]

    private static let script = "text/javascript; charset=utf-8"

    /// These are served without a token, to everybody who reaches the port: the page itself asks for the token.
    static func isPage(_ path: String) -> Bool { path == "/" || path.hasPrefix("/dashboard/") }

    static var routes: [Route] {
        files.map { file in
            .get(file.path) { _ in
                var headers = headers
                headers.set("Content-Type", file.type)
                return HTTPResponse(status: 200, headers: headers, body: .buffer(ByteBuffer(bytes: file.bytes)))
            }
        }
    }

    /// No resources from elsewhere, nothing inline, and no framing by any page.
    private static let headers: HeaderList = [
        "Content-Security-Policy":
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
            + "frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        // A different version of the agent has a different page.
        "Cache-Control": "no-cache",
    ]
}
