import type { ReactNode } from "react";
import { type Id, operation } from "../api/client.ts";
import { useGo } from "../api/hooks.ts";
import { words } from "../format.ts";
import { create, type FormButtonProps } from "./operations.tsx";
import { Named, Page, type TabPages } from "./page.tsx";
import { List, type ListProps } from "./table.tsx";

type Props<I extends Id> = Omit<ListProps<I>, "to" | "empty" | "hint"> & {
  /** What one of them is, by which its operations and its screen are named: quest. */
  one: string;
  about?: string;
  /** The form of something new. */
  form: Partial<FormButtonProps>;
  /** What they are for, told where there is none. */
  hint?: string;
  /** Other parts of the screen. */
  tabs?: TabPages;
  children?: ReactNode;
};

/** The screen of all definitions of a kind, and of making one. */
export const Catalogue = <I extends Id>(props: Props<I>) => {
  const { one, about, form, hint, tabs, children, columns, ...list } = props;
  const go = useGo();
  const title = `${words(one)}s`;
  const to = ({ id }: { id: string }) => `/${one}s/${id}`;
  const make = create(operation("create", one), `New ${one}`, { ...form, onDone: (made) => go(to(made)) });
  const nameOf = ({ name, key }: { name: string; key: string }) => <Named name={name} more={key} />;
  const given: any = { ...list, to, columns: { [words(one)]: nameOf, ...columns } };
  const all = () => (
    <List
      {...given}
      empty={`No ${one}s yet`}
      hint={
        <>
          {hint} {make}
        </>
      }
    />
  );
  return (
    <Page title={title} about={about} actions={make} pages={tabs && { all: [title, all], ...tabs }}>
      {children}
      {!tabs && all()}
    </Page>
  );
};
