import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { sql } from "kysely";
import { createLog } from "../../src/log.ts";
import { aTenant, startApp } from "../support/app/app.ts";
import { anotherServer } from "../support/app/another-server.ts";
import { eventually } from "../support/eventually.ts";
import { must } from "../support/http/client.ts";
import { mailsTo } from "../support/mail/mailbox.ts";
import { anAuthenticator } from "../support/mfa/second-factor.ts";
import { totpCode } from "../support/mfa/totp.ts";
import { madeOnce } from "../support/made.ts";

const AUTH = "/api/v1/auth";

describe("the secrets of a second factor", () => {
  const api = madeOnce(startApp);

  it("are shown once, and are in no log line, mail, audit entry, row or later answer", async () => {
    const lines: string[] = [];
    const log = createLog({ logLevel: "trace" }, { write: (line) => void lines.push(line) });
    const server = await anotherServer(api, {}, { log });
    const tenant = await aTenant(api);
    const { email, password, token, userId } = tenant;
    const own = { token };
    const asked = { currentPassword: password };
    const { secret, otpauthUrl } = must(await server.post(`${AUTH}/mfa/totp/setup`, asked, own), 200);
    const code = totpCode(secret);
    const enabled = must(await server.post(`${AUTH}/mfa/totp/enable`, { code }, own), 200);
    const { recoveryCodes } = enabled;
    const text: string[] = [];
    const note = async (answer: Promise<{ body: unknown }>) => text.push(JSON.stringify((await answer).body));

    const { body } = await server.post(`${AUTH}/login`, { email, password });
    const challengeToken = body.error.challenge.token;
    await note(server.post(`${AUTH}/login/mfa`, { challengeToken, code: secret }));
    await note(server.post(`${AUTH}/login/mfa`, { challengeToken, code: [secret] }));
    await note(server.post(`${AUTH}/login/mfa`, { challengeToken, code: recoveryCodes[0], more: secret }));
    must(await server.post(`${AUTH}/login/mfa`, { challengeToken, code: recoveryCodes[0] }), 200);
    const options = must(await server.post(`${AUTH}/mfa/passkeys/options`, asked, own), 200);
    const credential = anAuthenticator(api).create(options);
    must(await server.post(`${AUTH}/mfa/passkeys`, { name: "A phone", credential }, own), 201);
    await note(server.post(`${AUTH}/mfa/passkeys`, { name: "A phone", credential }, own));
    for (const path of [`${AUTH}/mfa`, `${AUTH}/me`, "/api/v1/team/members", "/api/v1/audit-log"])
      await note(server.get(path, own));
    const last = `last-${randomUUID()}`;
    await server.get(`${AUTH}/mfa`, { ...own, headers: { "X-Request-Id": last } });
    await eventually(() => lines.some((line) => line.includes(last)));
    await eventually(() => mailsTo(email).length >= 3);

    const rows = await api.app.transact(async ({ db }) => {
      const found = await sql<{ row: string }>`
        select to_jsonb(a)::text as row from audit_log a where target_id = ${userId}
        union all select to_jsonb(t)::text from totp_secrets t where owner_id = ${userId}::uuid
        union all select to_jsonb(r)::text from recovery_codes r where owner_id = ${userId}::uuid
        union all select to_jsonb(p)::text from passkeys p where owner_id = ${userId}::uuid`.execute(db);
      return found.rows.map(({ row }) => row);
    });
    assert.ok(lines.length > 10 && rows.length > 10);
    const mails = mailsTo(email).map((mail) => JSON.stringify(mail));
    // What a request had in a wrong or unknown field is not looked for in its own answer.
    const everywhere = [...lines, ...mails, ...rows, ...text.slice(3)].join("\n");
    const shownOnce: string[] = [secret, otpauthUrl, challengeToken, ...recoveryCodes];
    for (const one of [...shownOnce, ...recoveryCodes.map((spare: string) => spare.replaceAll("-", ""))])
      assert.ok(!everywhere.includes(one), `${one.slice(0, 4)}… is there`);
  });
});
