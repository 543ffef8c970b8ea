import { PROTOCOL_NS } from "./saml-document.ts";

const escaped = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => `&#${character.codePointAt(0)};`);

const consumer = (acsUrl: string, index: number): string =>
  `<AssertionConsumerService index="${index}" isDefault="${index === 0}"
      Binding="urn:oasis:names:tc:SAML:2.0:bindings:HTTP-POST" Location="${escaped(acsUrl)}"/>`;

type Metadata = { spEntityId: string; acsUrls: readonly string[] };

/** Returns the metadata of a tenant's service provider (SAML 2.0 Metadata, 2.4.4). */
export const samlMetadata = ({ spEntityId, acsUrls }: Metadata): string =>
  `<?xml version="1.0" encoding="UTF-8"?>
<EntityDescriptor xmlns="urn:oasis:names:tc:SAML:2.0:metadata" entityID="${escaped(spEntityId)}">
  <SPSSODescriptor AuthnRequestsSigned="false" WantAssertionsSigned="true"
      protocolSupportEnumeration="${PROTOCOL_NS}">
    <NameIDFormat>urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress</NameIDFormat>
    <NameIDFormat>urn:oasis:names:tc:SAML:2.0:nameid-format:persistent</NameIDFormat>
    ${acsUrls.map(consumer).join("\n    ")}
  </SPSSODescriptor>
</EntityDescriptor>
`;
