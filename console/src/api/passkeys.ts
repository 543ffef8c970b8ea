/** What browsers have and TypeScript's own types lack (WebAuthn Level 3, section 5.1). */
type Parser = {
  parseRequestOptionsFromJSON(options: unknown): PublicKeyCredentialRequestOptions;
  parseCreationOptionsFromJSON(options: unknown): PublicKeyCredentialCreationOptions;
};
type Sendable = { toJSON(): any };

const parser = (): Parser => PublicKeyCredential as unknown as Parser;

/** Asks for a passkey, by what the server has sent; returns what proves it. */
export const passkeyAnswer = async (options: unknown): Promise<any> => {
  const publicKey = parser().parseRequestOptionsFromJSON(options);
  const credential = await navigator.credentials.get({ publicKey });
  if (!credential) throw new Error("No passkey was chosen");
  return (credential as unknown as Sendable).toJSON();
};

/** Makes a passkey on this device. */
export const makePasskey = async (options: unknown): Promise<any> => {
  const publicKey = parser().parseCreationOptionsFromJSON(options);
  const credential = await navigator.credentials.create({ publicKey });
  if (!credential) throw new Error("No passkey was made");
  return (credential as unknown as Sendable).toJSON();
};
