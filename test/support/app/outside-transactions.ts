import assert from "node:assert/strict";
import type { App } from "../../../src/app.ts";
import { isTransacting } from "../../../src/domain/kernel/transact.ts";

/** Parts of an App that ask something other than the database, or keep the processor busy for long. */
const PARTS = [
  "billing",
  "captcha",
  "limiter",
  "liveRooms",
  "mailer",
  "oauth",
  "passwords",
  "queue",
  "ranks",
  "sso",
  "topics",
  "warehouse",
  "webhookSender",
] as const satisfies readonly (keyof App)[];

/** What was asked inside of a transaction, also where the caller has taken the refusal for an outage. */
export const askedInside: string[] = [];

/** The same part, whose functions fail when a transaction is open. */
const outsideOnly = <T extends object>(name: string, part: T): T =>
  new Proxy(part, {
    get: (target, property): unknown => {
      const value: unknown = Reflect.get(target, property);
      if (typeof value !== "function") return value;
      return (...values: unknown[]): unknown => {
        const asked = `${name}.${String(property)}`;
        if (isTransacting()) askedInside.push(asked);
        assert(!isTransacting(), `${asked} was called while a transaction was open`);
        return Reflect.apply(value, target, values);
      };
    },
  });

/** While a transaction is open nothing but the database is asked: makes this hold in any test of a server. */
export const refuseInsideTransactions = (app: App): void => {
  for (const name of PARTS) {
    const part = app[name];
    if (part !== undefined) Object.assign(app, { [name]: outsideOnly(name, part) });
  }
};
