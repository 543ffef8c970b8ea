import {
  createPrivateKey,
  generateKeyPairSync,
  hkdfSync,
  type KeyObject,
  randomBytes,
  randomUUID,
} from "node:crypto";
import { chmod, link, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { dataDirError, makeDir } from "./domain/kernel/data-dir.ts";
import { codeOf } from "./domain/kernel/errors.ts";

/** Values shown in `.env.example`. They are public, so production refuses them. */
export const SAMPLE_JWT_PRIVATE_KEY =
  '{"crv":"Ed25519","d":"c2FtcGxlLWtleS1vZi1lbnYtZXhhbXBsZS1wdWJsaWM",' +
  '"x":"wqV-4qYBlTErNC1jfZGjCCyMac-3zztGRKjC_XcnbaE","kty":"OKP"}';
export const SAMPLE_API_KEY_PEPPER = "sample-pepper-from-env-example-never-in-production";

export const SAMPLE_ENCRYPTION_KEY = "sample-encryption-key-from-env-example-not-for-production";

/** Parses an Ed25519 key from a PKCS #8 PEM (line ends may be written as `\n`) or a JWK. */
export const privateKeyOf = (text: string): KeyObject => {
  const jwk = text.trim().startsWith("{");
  return jwk
    ? createPrivateKey({ key: JSON.parse(text), format: "jwk" })
    : createPrivateKey(text.replaceAll("\\n", "\n"));
};

/** Whether it is the sample key in any spelling: JWK with other spacing or order, or PEM. */
export const isSampleKey = (text: string | undefined): boolean => {
  if (text === undefined) return false;
  try {
    return privateKeyOf(text).equals(privateKeyOf(SAMPLE_JWT_PRIVATE_KEY));
  } catch {
    return false;
  }
};

const Texts = z.array(z.string().min(1)).min(1);
const SecretsFile = z
  .object({ jwtPrivateKey: z.string().min(1), apiKeyPeppers: Texts, encryptionKeys: Texts.optional() })
  .transform(({ encryptionKeys, ...file }) => ({
    ...file,
    // For older files without one: derived, so it is the same for every process that reads them.
    encryptionKeys: encryptionKeys ?? [derivedKey(file.jwtPrivateKey)],
  }));

const derivedKey = (secret: string): string =>
  Buffer.from(hkdfSync("sha256", secret, "", "laurel encryption key", 32)).toString("base64url");

const newSecrets = (): z.output<typeof SecretsFile> => ({
  jwtPrivateKey: generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }),
  apiKeyPeppers: [randomBytes(32).toString("base64url")],
  encryptionKeys: [randomBytes(32).toString("base64url")],
});

/**
 * Creates the file atomically: it gets its name by a link, and only one of several starting processes
 * succeeds.
 */
const createFile = async (path: string): Promise<void> => {
  const draft = `${path}.${randomUUID()}`;
  await writeFile(draft, `${JSON.stringify(newSecrets(), null, 2)}\n`, {
    mode: 0o600,
    flag: "wx",
    flush: true,
  });
  try {
    await link(draft, path);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  } finally {
    await rm(draft, { force: true });
  }
};

const readText = async (path: string): Promise<string | undefined> => {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
};

const readOrCreate = async (dataDir: string, path: string): Promise<string> => {
  let text = await readText(path);
  if (text === undefined) {
    await makeDir(dataDir);
    await createFile(path);
    text = await readFile(path, "utf8");
  }
  await chmod(path, 0o600);
  return text;
};

/**
 * Reads the secrets kept in `<dataDir>/secrets.json`, which is created on the first call. Only the owner may
 * read the file.
 * @throws Error when the file is damaged: new secrets would void every API key, so nothing is replaced; or
 * the directory cannot be used, with the reason and the remedy.
 */
export const readSecrets = async (dataDir: string): Promise<z.output<typeof SecretsFile>> => {
  const path = join(dataDir, "secrets.json");
  const text = await readOrCreate(dataDir, path).catch((error: unknown) => {
    throw dataDirError(dataDir, error);
  });
  try {
    return SecretsFile.parse(JSON.parse(text));
  } catch {
    throw new Error(
      `${path} is damaged. Restore it from a backup; deleting it makes every API key and session invalid`,
    );
  }
};
