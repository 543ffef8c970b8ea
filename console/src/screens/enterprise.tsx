import { Stack, Text } from "@mantine/core";
import { useState } from "react";
import type { Answer, Row } from "../api/client.ts";
import { useApi, useCan } from "../api/hooks.ts";
import { words } from "../format.ts";
import { act, ask, create, OperationForm } from "../ui/operations.tsx";
import { Copyable, Section, Status, When } from "../ui/page.tsx";
import { Rows } from "../ui/table.tsx";

const FIRST = "provider displayName oidcIssuer oidcClientId oidcClientSecret allowedDomains enforceSso".split(
  " ",
);

export const Sso = () => {
  const { data, error } = useApi("getSso");
  const can = useCan();
  const [tested, setTested] = useState<Answer<"testSso">>();
  if (error && error.status !== 404) throw error;
  return (
    <Stack>
      <Section
        title={data ? "Your identity provider" : "Connect your identity provider"}
        actions={
          data && [
            act("testSso", "Test", { onDone: setTested }),
            ask("deleteSso", "Switch off", {
              title: "Switch single sign-on off?",
              done: "Single sign-on is off",
              text: "Members sign in by password again.",
            }),
          ]
        }
      >
        {tested?.checks.map(({ name, ok, message }) => (
          <Text key={name}>{`${ok ? "✓" : "✗"} ${words(name)}: ${message}`}</Text>
        ))}
        {can("putSso") ? (
          <OperationForm
            id="putSso"
            initial={data ?? { provider: "OIDC", displayName: "" }}
            first={FIRST}
            hidden={["providerType", "type"]}
            key={data?.updatedAt ?? "new"}
          />
        ) : (
          <Text>Only an owner changes this.</Text>
        )}
      </Section>
      <Rows
        section="Domains of email addresses"
        beside={create("addSsoDomain", "Claim a domain", {
          submit: "Claim",
          done: "Add the TXT record now",
        })}
        id="listSsoDomains"
        empty="No domains yet"
        hint="People whose address is of a domain that is yours sign in through your provider."
        columns={{
          Domain: "domain",
          Status: "status",
          "TXT record": ({ txtName, txtValue, status }) =>
            status === "PENDING" && <Copyable value={`${txtName}  ${txtValue}`} />,
        }}
        actions={({ id, domain, status }) => [
          status === "PENDING" &&
            act("verifySsoDomain", "Look now", { path: { domainId: id }, done: "Looked", isMain: true }),
          ask("removeSsoDomain", "Remove", { path: { domainId: id }, of: domain }),
        ]}
      />
      <Rows
        section="Sign-ins that failed"
        id="listSsoFailures"
        empty="None"
        columns={{ Last: "lastAt", Why: "message", Who: "email", Times: "times" }}
      />
    </Stack>
  );
};

const checkOf = (check: string) => <Status value={check === "OK" ? "VERIFIED" : check} />;

export const Domains = () => (
  <Rows
    section="Your own domains"
    beside={create("addCustomDomain", "Add a domain", {
      submit: "Add",
      done: "Open it to see the DNS records that it needs",
    })}
    id="listCustomDomains"
    dialog={[({ domain }) => `DNS records of ${domain}`, (row) => <Copyable value={recordsOf(row)} />]}
    refetchInterval={10_000}
    empty="No domains yet"
    hint="Game clients reach this server at an address of yours."
    columns={{
      Domain: "domain",
      Status: "status",
      Certificate: "sslStatus",
      "TXT record": ({ checks }) => checkOf(checks.txt),
      "Leads here": ({ checks }) => checkOf(checks.routing),
      "Valid until": ({ certificate }) => <When at={certificate?.notAfter} />,
      "What is wrong": ({ checks, sslError }) => checks.error ?? sslError,
    }}
    actions={({ id, domain }) => [
      act("verifyCustomDomain", "Look now", { path: { domainId: id }, done: "Looked" }),
      ask("removeCustomDomain", "Remove", {
        path: { domainId: id },
        of: domain,
        name: domain,
        text: "Clients that use it do not reach the server any more.",
      }),
    ]}
  />
);

const recordsOf = ({ domain, verification }: Row<"listCustomDomains">): string => {
  const { txtName, txtValue, cnameTarget, aRecords } = verification;
  return [
    `${txtName}  TXT  ${txtValue}`,
    ...(cnameTarget ? [`${domain}  CNAME  ${cnameTarget}`] : []),
    ...aRecords.map((address) => `${domain}  A  ${address}`),
  ].join("\n");
};
