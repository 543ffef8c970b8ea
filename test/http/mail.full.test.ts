import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import {
  type MailRequest,
  type MailTemplate,
  type MailValues,
} from "../../src/domain/accounts/email/mail.ts";
import { createMail } from "../../src/domain/accounts/email/deliveries.ts";
import type { RowScope } from "../../src/domain/kernel/work.ts";
import { createLog } from "../../src/log.ts";
import { createMailer } from "../../src/platform/mailer.ts";
import { routes } from "../../src/http/routes.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { aMailTo, tokenIn } from "../support/mail/mailbox.ts";
import { madeOnce } from "../support/made.ts";

const anAddress = (): string => `${randomUUID()}@example.com`;
const ACCOUNTS: RowScope = { role: "accounts" };
/** Values that fill every template. */
const values = {
  name: "Ada",
  token: "tok-en_1",
  newEmail: "ada@new.example.com",
  provider: "google",
  tenantName: "Engines",
  inviterName: "Charles",
  role: "VIEWER",
  email: "ada@example.com",
  reason: "None",
  deleteAfter: "2030-01-01T00:00:00.000Z",
  keyName: "CI",
  keyPrefix: "svc_live_abcdefgh",
  projectName: "Game",
} satisfies Record<string, string> as MailValues[MailTemplate];

describe("mail", () => {
  const queueAs = (scope: RowScope, request: Partial<MailRequest<MailTemplate>>, mail = api.app.mail) =>
    api.app.transactAs(scope)((work) =>
      mail.queue(work, {
        template: "verify-email",
        to: anAddress(),
        values,
        tenantId: null,
        userId: null,
        ...request,
      }),
    );
  const mailOf = (mode: "smtp" | "log" | "off") => {
    const { secretBox, config } = api.app;
    return createMail({ secretBox, mode, consoleUrl: config.consoleUrl, wake: () => undefined });
  };

  const api = madeOnce(startApp);

  it("goes out from the accounts scope, with a tenant or without, and from a tenant's own", async () => {
    const { tenantId } = await aTenant(api);
    const web: RowScope = { role: "web", tenantId, projectIds: [] };
    const asked: [RowScope, string | null][] = [
      [ACCOUNTS, null],
      [ACCOUNTS, tenantId],
      [web, tenantId],
    ];
    for (const [scope, owner] of asked) {
      const to = anAddress();
      assert.equal(await queueAs(scope, { to, tenantId: owner }), true);
      const mail = await aMailTo(to, /verify/i);
      assert.equal(tokenIn(mail), "tok-en_1");
      assert.match(mail.text ?? "", new RegExp(`${api.app.config.consoleUrl}/verify-email\\?token=`));
    }
  });

  it("cannot be put into another tenant's log from a tenant's scope", async () => {
    const [{ tenantId }, other] = [await aTenant(api), await aTenant(api)];
    const web: RowScope = { role: "web", tenantId, projectIds: [] };
    for (const owner of [other.tenantId, null])
      await assert.rejects(queueAs(web, { tenantId: owner }), /row-level security/);
  });
  it("without one is left out where no mail is sent, and the act goes on", async () => {
    const notice = { template: "password-changed", values: { name: "Ada" } } as const;
    assert.equal(await queueAs(ACCOUNTS, notice, mailOf("off")), false);
  });

  it("is printed with its links where development has no mail server, and nothing is sent then", async () => {
    const lines: string[] = [];
    const log = createLog({ logLevel: "info" }, { write: (line) => void lines.push(line) });
    const settings = { mode: "log", smtpUrl: undefined, from: "laurel@localhost" } as const;
    const to = { name: "Ada", address: anAddress() };
    const text = "Open http://localhost:2567/verify-email?token=abc-1";
    await createMailer(settings, log).send({ id: "1", to, subject: "Hello", text, html: "" });
    assert.equal(lines.length, 1);
    assert.ok(lines[0]!.includes(to.address) && lines[0]!.includes("/verify-email?token=abc-1"));
    assert.equal(mailOf("log").isOff, false);
    await assert.rejects(
      createMailer({ ...settings, mode: "off" }, log).send({ id: "1", to, subject: "Hello", text, html: "" }),
    );
    assert.equal(lines.length, 1);
  });

  it("has no settings that a request could change: the mail server is the environment's alone", () => {
    const named = routes.filter(
      ({ method, path }) => method !== "get" && /smtp|mail-server|email-settings/i.test(path),
    );
    assert.deepEqual(named, []);
  });
});
