import { sql } from "kysely";
import type { Transact } from "../../src/domain/kernel/work.ts";

/** Runs a statement that no operation has, in a transaction of its own, and answers its rows. */
export type Statement = <T = unknown>(text: TemplateStringsArray, ...values: unknown[]) => Promise<T[]>;

export const statementsOf =
  (transact: Transact): Statement =>
  (text, ...values) =>
    transact(async ({ db }) => (await sql(text, ...values).execute(db)).rows as never);
