import { callAny } from "./client.ts";

/** Asks this device for a passkey; returns what proves it. */
export const provePasskey = async (): Promise<unknown> => {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(await callAny("startPasskeyLogin"));
  return ((await navigator.credentials.get({ publicKey })) as PublicKeyCredential).toJSON();
};

/** Makes a passkey on this device, by what the server has sent. */
export const makePasskey = async (options: PublicKeyCredentialCreationOptionsJSON): Promise<any> => {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(options);
  return ((await navigator.credentials.create({ publicKey })) as PublicKeyCredential).toJSON();
};
