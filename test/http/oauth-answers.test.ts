import assert from "node:assert/strict";
import { startApp } from "../support/app/app.ts";
import {
  assertRefused,
  endOf,
  type HostileProvider,
  newPersonAt,
  startHostileProvider,
} from "../support/providers/hostile-provider.ts";
import { aBrowser, type OAuthServer, startOAuthServer, startUrl } from "../support/providers/oauth.ts";
import { madeOnce } from "../support/made.ts";

describe("what an OpenID provider answers", () => {
  let server: OAuthServer;
  const comeBack = () => endOf(aBrowser(), startUrl(server, "google", { flow: "signup" }));

  const provider = madeOnce(() => startHostileProvider());
  before(async () => {
    server = await startOAuthServer(await startApp(), async () => ({ google: provider, github: undefined }));
  });
  beforeEach(() => {
    provider.malice = {};
    newPersonAt(provider);
  });
  after(async () => {
    await server.close();
    await provider.close();
  });

  it("is good unless a test changes it", async () => {
    assert("access_token" in (await comeBack()));
  });

  it("may have expired less than half a minute ago, as clocks differ", async () => {
    const seconds = Math.floor(Date.now() / 1_000);
    provider.malice = { claims: { iat: seconds - 320, exp: seconds - 20 } };
    assert("access_token" in (await comeBack()));
  });

  describe("with the ID token", () => {
    const now = () => Math.floor(Date.now() / 1_000);
    const bad: Record<string, () => HostileProvider["malice"]> = {
      "signed by another key": () => ({ alg: "foreign key" }),
      "not signed": () => ({ alg: "none" }),
      "signed with the client's secret": () => ({ alg: "HS256" }),
      "for another client": () => ({ claims: { aud: "somebody-else" } }),
      "for two clients": () => ({ claims: { aud: ["laurel", "somebody-else"] } }),
      "for two clients, this one authorized": () => ({
        claims: { aud: ["laurel", "somebody-else"], azp: "laurel" },
      }),
      "of another issuer": () => ({ claims: { iss: "https://accounts.google.com" } }),
      "that has expired": () => ({ claims: { iat: now() - 340, exp: now() - 40 } }),
      "with the nonce of another flow": () => ({ claims: { nonce: "x".repeat(43) } }),
      "without a nonce": () => ({ claims: { nonce: undefined } }),
      "without a subject": () => ({ claims: { sub: undefined } }),
      "with a subject that is no text": () => ({ claims: { sub: 5 } }),
      "with a subject of control characters": () => ({ claims: { sub: "vic\u0000tim" } }),
      "with a subject that is too long": () => ({ claims: { sub: "x".repeat(5_000) } }),
    };
    for (const [what, malice] of Object.entries(bad)) {
      it(`${what}: an error, no tokens`, async () => {
        provider.malice = malice();
        assertRefused(await comeBack());
      });
    }
  });

  describe("with the issuer of the answer", () => {
    for (const [what, iss] of [
      ["missing", undefined],
      ["foreign", "https://accounts.google.com"],
    ] as const) {
      it(`${what}: an error, no tokens`, async () => {
        provider.malice = { back: { iss } };
        assertRefused(await comeBack());
      });
    }
  });

  describe("with the provider's answer", () => {
    it("an error of any text comes back as one of ours, with no text of theirs", async () => {
      const text = "<script>https://evil.example\r\n";
      provider.malice = { back: { code: undefined, error: text, error_description: text } };
      const answer = await comeBack();
      assertRefused(answer);
      assert(!answer["error_description"]!.includes("evil"));
    });

    it("parameters that nobody knows are let through", async () => {
      provider.malice = { back: { session_state: "x", authuser: "0", hd: "example.com", prompt: "none" } };
      assert("access_token" in (await comeBack()));
    });

    it("tokens in the address are refused", async () => {
      provider.malice = { back: { id_token: "x", access_token: "y" } };
      assertRefused(await comeBack());
    });

    const answers: Record<string, [error: string, malice: HostileProvider["malice"]["token"]]> = {
      "that is no JSON": ["provider_error", (response) => void response.end("<html>")],
      "of another status": ["provider_error", (response) => void response.writeHead(500).end("{}")],
      "that refuses the client": [
        "provider_error",
        (response) =>
          void response
            .writeHead(401, { "WWW-Authenticate": "Basic", "Content-Type": "application/json" })
            .end('{"error":"invalid_client"}'),
      ],
      "without an ID token": [
        "provider_error",
        (response) =>
          void response
            .writeHead(200, { "Content-Type": "application/json" })
            .end('{"access_token":"x","token_type":"Bearer"}'),
      ],
      "that redirects": [
        "provider_error",
        (response) => void response.writeHead(302, { Location: "http://127.0.0.1:1/" }).end(),
      ],
      "without an end": [
        "provider_error",
        (response) => {
          response.writeHead(200, { "Content-Type": "application/json" });
          const more = () => response.write(" ".repeat(65_536), (error) => error ?? setImmediate(more));
          more();
        },
      ],
      "that breaks off": ["temporarily_unavailable", (response) => void response.destroy()],
    };
    for (const [what, [error, token]] of Object.entries(answers)) {
      it(`${what}: an error, no tokens`, async () => {
        provider.malice = { token: token! };
        assertRefused(await comeBack(), error);
      });
    }
  });
});
