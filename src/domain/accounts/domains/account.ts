import { sql } from "kysely";
import type { SecretBox } from "../../kernel/secret-box.ts";
import type { Transact } from "../../kernel/work.ts";
import type { Acme, AcmeAccount } from "./acme.ts";

type AccountParts = {
  transact: Transact;
  acme: Acme;
  secretBox: SecretBox;
  log: Record<"error", (fields: object, message: string) => void>;
};

/** Names the row in which an account's key is sealed. */
export const accountContext = ({ directoryUrl }: Pick<Acme, "directoryUrl">): string =>
  `acme_account:${directoryUrl}`;

type AccountRow = { sealed_key: string; account_url: string | null };

/** Returns the account of this server, of which there is one however many processes begin. */
export const accountOf = async ({ transact, acme, secretBox, log }: AccountParts): Promise<AcmeAccount> => {
  const { directoryUrl } = acme;
  const find = () =>
    transact(async ({ db }) => {
      const { rows } = await sql<AccountRow>`
        select sealed_key, account_url from acme_accounts where directory_url = ${directoryUrl}`.execute(db);
      return rows[0];
    });
  let found = await find();
  if (!found) {
    const sealed = secretBox.seal(await acme.newAccountKey(), accountContext(acme));
    await transact(({ db, serverNow }) =>
      sql`
        insert into acme_accounts (directory_url, sealed_key, created_at)
        values (${directoryUrl}, ${sealed}, ${serverNow.toISOString()}::timestamptz)
        on conflict do nothing`.execute(db),
    );
    found = await find();
  }
  const { sealed_key: sealed, account_url: url } = found!;
  try {
    return { keyPem: secretBox.open(sealed, accountContext(acme)), url: url ?? undefined };
  } catch (error) {
    log.error({ err: error }, "the account's key cannot be opened; another account takes its place");
  }
  const { newAccountKey } = acme;
  const another = secretBox.seal(await newAccountKey(), accountContext(acme));
  await transact(({ db }) =>
    sql`
      update acme_accounts set sealed_key = ${another}, account_url = null
      where directory_url = ${directoryUrl} and sealed_key = ${sealed}`.execute(db),
  );
  const { sealed_key: now } = (await find())!;
  return { keyPem: secretBox.open(now, accountContext(acme)), url: undefined };
};
