import type { Env, Rule } from "./rule.ts";
import { list } from "./settings.ts";

/** Where browsers may use passkeys. */
export type PasskeySettings = {
  /** The host that passkeys belong to: they work there and on hosts below it. */
  rpId: string;
  /** Origins of the pages that may use them. */
  origins: readonly string[];
};

type Given = { PASSKEY_RP_ID?: string | undefined; PASSKEY_ORIGINS?: string[] | undefined };

/** @param consoleUrl where people use passkeys unless PASSKEY_ORIGINS says otherwise */
export const passkeysOf = (
  { PASSKEY_RP_ID, PASSKEY_ORIGINS = [] }: Given,
  consoleUrl: string,
): PasskeySettings => {
  const [first = consoleUrl, ...rest] = PASSKEY_ORIGINS;
  const origins = [first, ...rest].map((address) => new URL(address).origin);
  return { rpId: PASSKEY_RP_ID ?? new URL(first).hostname, origins };
};

const originsIn = (env: Env): string[] =>
  list.parse(env["PASSKEY_ORIGINS"] ?? env["CONSOLE_URL"] ?? env["PUBLIC_URL"] ?? "");

/** Whether passkeys of the RP id work at the address: they do at its host and those below it. */
const fitsRpId = (address: string, rpId: string): boolean => {
  if (!URL.canParse(address)) return true;
  const { hostname } = new URL(address);
  return hostname === rpId || hostname.endsWith(`.${rpId}`);
};

/** Dependencies between the settings of passkeys and others. */
export const PASSKEY_RULES: readonly Rule[] = [
  {
    name: "PASSKEY_RP_ID",
    breaks: (env) => {
      const [first = ""] = originsIn(env);
      const rpId = env["PASSKEY_RP_ID"] ?? (URL.canParse(first) ? new URL(first).hostname : "");
      return rpId !== "" && originsIn(env).some((address) => !fitsRpId(address, rpId));
    },
    message:
      "must be the host of every address in PASSKEY_ORIGINS (default: CONSOLE_URL), or a domain above it",
  },
  {
    name: "PASSKEY_ORIGINS",
    breaks: (env) =>
      env["NODE_ENV"] === "production" &&
      list.parse(env["PASSKEY_ORIGINS"] ?? "").some((address) => !address.startsWith("https://")),
    message: "must start with https:// when NODE_ENV=production",
  },
];
