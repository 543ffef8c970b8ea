import { createHash, randomBytes } from "node:crypto";

const SECRET_BYTES = 32;

/** Returns 256 random bits in base64url, for a link, a cookie or a URL. */
export const newRandomSecret = (): string => randomBytes(SECRET_BYTES).toString("base64url");

/** Returns the stored hash of a fully random secret, which needs no slow hash and no pepper. */
export const hashRandomSecret = (secret: string): string => createHash("sha256").update(secret).digest("hex");
