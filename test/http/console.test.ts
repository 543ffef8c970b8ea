import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { App } from "../../src/app.ts";
import { readConfig } from "../../src/config.ts";
import { startTinyHttp, tinyApp } from "../support/http/tiny-http.ts";
import { madeForEach } from "../support/made.ts";
import { temporaryDir } from "../support/processes/process.ts";

const DOMAIN = { id: "1", tenantId: "2", domain: "play.acme.com" };
const TEMPLATE = '<meta property="csp-nonce" nonce="__NONCE__" /><style nonce="__NONCE__"></style>';

describe("the console's files", () => {
  const folder = madeForEach(temporaryDir);
  const dist = () => join(folder.path, "dist");

  const http = madeForEach(async () => {
    const config = {
      ...readConfig({
        SSL_MODE: "external",
        CUSTOM_DOMAIN_SUFFIX: "edge.acme.com",
        TRUSTED_PROXIES: "127.0.0.1",
      }),
      consoleDir: dist(),
      secrets: tinyApp([]).config.secrets,
    };
    const find = async (name: string) => (name === DOMAIN.domain ? DOMAIN : undefined);
    return startTinyHttp([], { config, domains: { find } as unknown as App["domains"] });
  });
  const get = (path: string, headers = {}) => http.send("GET", path, { headers });

  const build = async () => {
    await mkdir(join(dist(), "assets"), { recursive: true });
    await writeFile(join(folder.path, "secret.js"), "secret");
    for (const [name, text] of [
      ["index.html", TEMPLATE],
      [".stamp", "secret"],
      ["theme.js", "theme()"],
      ["assets/main-a1b2.js", `main(${JSON.stringify("x".repeat(2_000))})`],
    ] as const)
      await writeFile(join(dist(), name), text);
  };

  afterEach(async () => {
    await http.close();
    await folder.remove();
  });

  it("are one page at every address of a page, with a nonce of each view", async () => {
    await build();
    const nonces = new Set<string>();
    for (const path of ["/console", "/console/", "/console/players", "/console/players/a.b%2Fc?sort=xp"]) {
      const { status, headers, text } = await get(path);
      assert.equal(status, 200, path);
      const [, nonce = ""] = /nonce="([^"]+)" \/>/.exec(text)!;
      assert.equal(text, TEMPLATE.replaceAll("__NONCE__", nonce));
      nonces.add(nonce);
      assert.equal(
        headers["content-security-policy"],
        `default-src 'none'; script-src 'self'; style-src 'self' 'nonce-${nonce}'; connect-src 'self'; ` +
          "img-src 'self' data:; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
      );
      assert.match(String(headers["content-type"]), /^text\/html/);
      assert.equal(headers["cache-control"], "no-store");
      assert.equal(headers["x-content-type-options"], "nosniff");
      assert.equal(headers["referrer-policy"], "no-referrer");
    }
    assert.equal(nonces.size, 4);
  });

  it("are kept for ever where their names say what is in them, else asked for again", async () => {
    await build();
    const plain = await get("/console/assets/main-a1b2.js");
    assert.match(plain.text, /^main\(/);
    assert.match(String(plain.headers["content-type"]), /javascript/);
    assert.equal(plain.headers["cache-control"], "public, max-age=31536000, immutable");
    const packed = await get("/console/assets/main-a1b2.js", { "Accept-Encoding": "gzip" });
    assert.equal(packed.headers["content-encoding"], "gzip");
    assert.ok(Number(packed.headers["content-length"]) < 200);
    const theme = await get("/console/theme.js");
    assert.deepEqual([theme.text, theme.headers["cache-control"]], ["theme()", "no-cache"]);
    const again = await get("/console/theme.js", { "If-None-Match": theme.headers["etag"] });
    assert.equal(again.status, 304);
  });

  it("are found in their folder alone, and a missing one is no page", async () => {
    await build();
    for (const path of [
      "/console/assets/gone-1.js",
      "/console/assets",
      "/console/assets/",
      "/console/assets/a/b.js",
      "/console/assets/..%2Ftheme.js",
      "/console/assets/..%2F..%2Fsecret.js",
      "/console/..%2Fsecret.js",
      "/console/..%5Csecret.js",
      "/console/.stamp",
      "/console/index.html",
      "/console/gone.js",
      `/console/${"a".repeat(300)}.js`,
      `/console/assets/${"a".repeat(5_000)}.js`,
    ]) {
      const { status, json } = await get(path);
      assert.deepEqual([status, json?.error.code], [404, "NOT_FOUND"], path);
    }
    assert.doesNotMatch(await http.raw("GET /console/../secret.js HTTP/1.0\r\nHost: a\r\n\r\n"), /secret$/);
  });

  it("answer HEAD, and no other method", async () => {
    await build();
    for (const path of [
      "/console",
      "/console/players/x",
      "/console/theme.js",
      "/console/assets/main-a1b2.js",
    ]) {
      const head = await http.send("HEAD", path);
      assert.deepEqual([head.status, head.text], [200, ""], path);
      const { status, headers } = await http.send("POST", path, { body: "{}" });
      assert.deepEqual([status, headers["allow"]], [405, "GET, HEAD"], path);
    }
  });

  it("are not at a custom domain", async () => {
    await build();
    const there = { Host: DOMAIN.domain, "X-Forwarded-Proto": "https" };
    for (const path of ["/console", "/console/players", "/console/theme.js", "/console/assets/main-a1b2.js"])
      assert.equal((await get(path, there)).status, 404, path);
    assert.equal((await get("/", { ...there, Accept: "text/html" })).headers["location"], "/docs");
  });

  it("say while there are none that they are being built, and are there with the end of the build", async () => {
    const { status, headers, text } = await get("/console/players");
    assert.deepEqual([status, headers["retry-after"]], [503, "2"]);
    assert.match(text, /http-equiv="refresh" content="2"[^]*being built/);
    assert.doesNotMatch(text, /<script|style/);
    await build();
    assert.equal((await get("/console/players")).status, 200);
  });

  it("say how to build them where no start does", async () => {
    const production = { NODE_ENV: "production", PUBLIC_URL: "https://a.example.com", EMAIL_MODE: "off" };
    for (const env of [production, { CONSOLE_BUILD: "off" }]) {
      const config = { ...readConfig(env), consoleDir: dist(), secrets: tinyApp([]).config.secrets };
      const other = await startTinyHttp([], { config });
      const { status, headers, text } = await other.send("GET", "/console");
      await other.close();
      assert.deepEqual([status, headers["retry-after"]], [503, undefined]);
      assert.match(text, /npm run console/);
    }
  });
});
