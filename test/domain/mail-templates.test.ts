import assert from "node:assert/strict";
import { isMailAddress } from "../../src/domain/accounts/email/address.ts";
import { type MailTemplate, type MailValues } from "../../src/domain/accounts/email/mail.ts";
import { failureOf } from "../../src/domain/accounts/email/deliveries.ts";
import { MAIL_TEMPLATES, renderMail } from "../../src/domain/accounts/email/templates/templates.ts";
import { HOSTILE_ADDRESSES } from "../support/mail/mail-app.ts";

const CONSOLE = "https://console.example.com";
const BASES = { tokenUrl: CONSOLE, consoleUrl: CONSOLE };
const TOKEN = "tok_abc-DEF";

const USAGE = {
  what: "events",
  used: "400000",
  limit: "500000",
  plan: "STARTER",
  periodEnd: "2030-03-01T00:00:00.000Z",
} as const;

const FRIENDLY: MailValues = {
  "verify-email": { name: "Ada", token: TOKEN },
  "change-email": { name: "Ada", token: TOKEN },
  "email-changed": { name: "Ada", newEmail: "ada@new.example.com" },
  "email-released": { loginName: "018f-42@released.invalid" },
  "reset-password": { name: "Ada", token: TOKEN },
  "password-changed": { name: "Ada" },
  "identity-linked": { name: "Ada", provider: "github" },
  "second-factor-changed": { name: "Ada", change: "PASSKEY_ADDED" },
  invitation: { tenantName: "Engines", inviterName: "Charles", role: "ADMIN", token: TOKEN },
  "member-pending": { tenantName: "Engines", name: "Ada", email: "ada@example.com" },
  "tenant-approved": { tenantName: "Engines" },
  "tenant-rejected": { tenantName: "Engines", reason: "No website" },
  "tenant-unsuspended": { tenantName: "Engines" },
  "tenant-suspended": { tenantName: "Engines", reason: "Not paid" },
  "tenant-deleted": { tenantName: "Engines", deleteAfter: "2030-02-01T10:00:00.000Z" },
  "sso-changed": { displayName: "Okta", change: "UPDATED" },
  "custom-domain": { domain: "play.acme.com", change: "DEGRADED", until: "2026-12-01T00:00:00.000Z" },
  "domain-certificate-expiring": {
    domain: "play.acme.com",
    expiresAt: "2030-02-01T10:00:00.000Z",
    error: "the CAA records of acme.com allow nobody to issue certificates",
  },
  "sso-certificate-expiring": {
    displayName: "Okta",
    fingerprint: "ab12cd34",
    expiresAt: "2030-02-01T10:00:00.000Z",
    otherUntil: "2031-02-01T10:00:00.000Z",
  },
  "sso-domain": { domain: "acme.com", until: "2030-02-01T10:00:00.000Z" },
  "sso-break-glass-used": { email: "ada@example.com", at: "2030-02-01T10:00:00.000Z" },
  "report-ready": {
    reportName: "Week",
    reportId: "018f-42",
    runId: "018f-43",
    from: "2030-01-01",
    to: "2030-01-07",
    timezone: "Europe/Berlin",
  },
  "report-failed": { reportName: "Week", reportId: "018f-42", runId: "018f-43", error: "rule not found" },
  "webhook-failing": { webhookId: "018f-42", host: "hooks.example.com:8443", error: "it answered 500" },
  "webhook-disabled": { webhookId: "018f-42", host: "hooks.example.com", reason: "No success for 5 days" },
  "usage-80": USAGE,
  "usage-100": { ...USAGE, used: "500001", refusedAbove: "600000" },
  "payment-failed": { plan: "PRO", keptUntil: "2030-02-08T10:00:00.000Z" },
  "plan-changed": { from: "PRO", to: "FREE", remarks: "2 webhooks were paused. There are 3 projects." },
  "subscription-duplicate": { subscriptions: "sub_1, sub_2" },
  "api-key-created": { name: "Ada", keyName: "CI", keyPrefix: "svc_live_abcdefgh", projectName: "Game" },
};

const LINKS: Partial<Record<MailTemplate, string>> = {
  "verify-email": `${CONSOLE}/verify-email?token=${TOKEN}`,
  "change-email": `${CONSOLE}/verify-email?token=${TOKEN}`,
  "reset-password": `${CONSOLE}/reset-password?token=${TOKEN}`,
  invitation: `${CONSOLE}/accept-invitation?token=${TOKEN}`,
  "report-ready": `${CONSOLE}/analytics/reports/018f-42/runs/018f-43`,
  "report-failed": `${CONSOLE}/analytics/reports/018f-42/runs/018f-43`,
};

const HOSTILE = [
  `<script>alert(1)</script>`,
  `"><img src=x onerror=alert(1)>`,
  `' onmouseover='alert(1)`,
  `a\r\nBcc: victim@example.com\r\n\r\nbody`,
  `a\u2028b\u0000c\u202egnp.exe\ud800`,
  `</title></head><body>`,
  `&lt;b&gt;`,
  "x".repeat(100_000),
  "",
  "\u0007",
  "$&$1$`{{7*7}}<%= 7*7 %>",
];

/** The same template with one hostile text in the place of every value. */
const withAll = <T extends MailTemplate>(template: T, text: string): MailValues[T] =>
  Object.fromEntries(Object.keys(FRIENDLY[template]).map((name) => [name, text])) as MailValues[T];

const tagsOf = (html: string): string[] => [...html.matchAll(/<[^>]*>/g)].map(([tag]) => tag);
/** Tags with their values taken out: what a reader's program acts on. */
const shapeOf = (html: string): string[] =>
  tagsOf(html).map((tag) => tag.replaceAll(/href="[^"]*"/g, "href"));

describe("mail templates", () => {
  for (const template of MAIL_TEMPLATES) {
    it(`${template} says what it has to in text and HTML, and links only to the console`, () => {
      const { subject, text, html } = renderMail(template, FRIENDLY[template], BASES);
      assert.match(subject, /^\S.{5,80}$/);
      const link = LINKS[template];
      const urls = [...text.matchAll(/https?:\/\/\S+/g)].map(([url]) => url);
      assert.deepEqual(urls, link === undefined ? [] : [link]);
      const hrefs = [...html.matchAll(/(?:href|src)="([^"]*)"/g)].map(([, url]) => url);
      assert.deepEqual(new Set(hrefs), new Set(link === undefined ? [] : [link]));
      for (const [name, value] of Object.entries(FRIENDLY[template])) {
        if (["token", "role", "provider", "change", "deleteAfter"].includes(name)) continue;
        assert.ok(text.includes(value), `${name} in the text`);
        assert.ok(html.includes(value), `${name} in the HTML`);
      }
      assert.doesNotMatch(text + html, /undefined|null|\[object/);
    });

    it(`${template} stays one subject line and the same HTML whatever its values are`, () => {
      const shape = shapeOf(renderMail(template, FRIENDLY[template], BASES).html);
      for (const value of HOSTILE) {
        const { subject, text, html } = renderMail(template, withAll(template, value), BASES);
        assert.deepEqual(shapeOf(html), shape, `tags with ${JSON.stringify(value.slice(0, 40))}`);
        assert.doesNotMatch(subject, /[\p{Cc}\u2028\u2029\u202e]/u);
        assert.ok([...subject].length <= 200);
        assert.doesNotMatch(text.replaceAll("\n", ""), /[\p{Cc}\u2028\u202e]/u);
        assert.doesNotMatch(text, /^Bcc:/m);
        assert.ok(text.isWellFormed() && html.isWellFormed());
        if (value !== "x".repeat(100_000)) assert.ok(html.length < 10_000);
      }
    });
  }

  it("make no link of a name that looks like one", () => {
    const name = "WIN a prize: https://evil.example/claim now";
    const values = { tenantName: name, inviterName: "evil.example", role: "ADMIN", token: TOKEN };
    const { text, html, subject } = renderMail("invitation", values, BASES);
    for (const part of [text, html, subject]) {
      assert.doesNotMatch(part, /evil\.example/);
      assert.doesNotMatch(part, /https:\/\/(?!console\.example\.com)/);
    }
  });

  it("say in their subject what has become of a custom domain", () => {
    const changes = { LOST: "another account's", PLAN_LOST: "plan", TENANT_SUSPENDED: "suspended account" };
    for (const [change, said] of Object.entries({ ...changes, SUSPENDED: "not served" })) {
      const values = { ...FRIENDLY["custom-domain"], change } as MailValues["custom-domain"];
      assert.ok(renderMail("custom-domain", values, BASES).subject.includes(said), change);
    }
  });
});

describe("addresses that mail is sent to", () => {
  it("are ordinary ones", () => {
    for (const address of [
      "ada@example.com",
      "Ada.Lovelace+games@sub.example.co.uk",
      "o'brien@example.ie",
      "a_b-c=d@xn--bcher-kva.example",
      `${"l".repeat(64)}@example.com`,
    ])
      assert.ok(isMailAddress(address), address);
  });

  for (const address of HOSTILE_ADDRESSES)
    it(`are not ${JSON.stringify(address).slice(0, 60)}`, () => assert.equal(isMailAddress(address), false));

  it("are judged in no time, however long the text", () => {
    for (const text of [`${"a.".repeat(50_000)}@`, `a@${"a-".repeat(50_000)}`, `a@${"a.".repeat(50_000)}1`])
      assert.equal(isMailAddress(text), false);
  });
});

describe("what the mail server says", () => {
  const cases: [string, object, string][] = [
    ["450 at the recipient", { code: "EENVELOPE", command: "RCPT TO", responseCode: 450 }, "retry"],
    ["421 in between", { code: "ECONNECTION", command: "CONN", responseCode: 421 }, "retry"],
    ["503 out of step", { code: "EENVELOPE", command: "MAIL FROM", responseCode: 503 }, "retry"],
    ["a refused connection", { code: "ESOCKET", originalCode: "ECONNREFUSED" }, "retry"],
    ["silence", { code: "ETIMEDOUT" }, "retry"],
    ["an attempt cut off", { code: "EABORT" }, "retry"],
    ["a name that does not resolve", { code: "EDNS" }, "retry"],
    ["a bug", new TypeError("oops"), "retry"],
    ["550 at the recipient", { code: "EENVELOPE", command: "RCPT TO", responseCode: 550 }, "refused"],
    ["551 at the recipient", { code: "EENVELOPE", command: "RCPT TO", responseCode: 551 }, "refused"],
    ["553 at the recipient", { code: "EENVELOPE", command: "RCPT TO", responseCode: 553 }, "refused"],
    ["550 for the sender", { code: "EENVELOPE", command: "MAIL FROM", responseCode: 550 }, "give-up"],
    ["550 for the text", { code: "EMESSAGE", command: "DATA", responseCode: 550 }, "give-up"],
    ["554 at the recipient", { code: "EENVELOPE", command: "RCPT TO", responseCode: 554 }, "give-up"],
    ["552 too large", { code: "EMESSAGE", command: "DATA", responseCode: 552 }, "give-up"],
    ["535 to the password", { code: "EAUTH", command: "AUTH PLAIN", responseCode: 535 }, "operator"],
    ["454 to the password", { code: "EAUTH", command: "AUTH PLAIN", responseCode: 454 }, "operator"],
    ["no TLS", { code: "ETLS" }, "operator"],
  ];
  for (const [name, error, kind] of cases)
    it(`${name}: ${kind}`, () => assert.equal(failureOf(error).kind, kind));

  it("550 that is about us and not about the address suppresses nobody", () => {
    const response = "550 5.7.1 Relaying denied";
    const error = { code: "EENVELOPE", command: "RCPT TO", responseCode: 550, response };
    assert.equal(failureOf(error).kind, "give-up");
  });

  it("is kept without tokens, and cut", () => {
    const response = `554 5.7.1 https://c.example/verify-email?token=s3cret-_x is bad ${"x".repeat(2_000)}`;
    const { smtpResponse = "" } = failureOf({
      code: "EMESSAGE",
      command: "DATA",
      responseCode: 554,
      response,
    });
    assert.doesNotMatch(smtpResponse, /s3cret/);
    assert.ok(smtpResponse.length <= 500);
  });
});
