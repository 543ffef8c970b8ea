import { createHash, randomBytes } from "node:crypto";

const SECRET_BYTES = 32;

/** 256 random bits in base64url, for a link, a cookie or an address. */
export const newRandomSecret = (): string => randomBytes(SECRET_BYTES).toString("base64url");

/** What is stored of a secret that is random throughout: it needs no slow hash and no pepper. */
export const hashRandomSecret = (secret: string): string => createHash("sha256").update(secret).digest("hex");
