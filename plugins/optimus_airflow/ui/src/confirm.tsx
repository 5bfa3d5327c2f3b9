// What changes something asks once before it does.
import { useState } from "react";

import { Button, HStack, Text } from "./chakra";

export type Act = { label: string; ask: string; yes: string; act: () => void; danger?: boolean };

/** Buttons that each ask once; `children` stand between them. */
export const Confirmed = ({ acts }: { acts: Act[] }) => {
  const [asked, setAsked] = useState<Act | null>(null);
  if (asked === null)
    return acts.map((each) => (
      <Button key={each.label} size="sm" variant="outline" {...(each.danger ? { colorPalette: "red" } : {})} onClick={() => setAsked(each)}>{each.label}</Button>
    ));
  return (
    <HStack role="alertdialog" aria-label="Confirm" wrap="wrap">
      <Text>{asked.ask}</Text>
      <Button size="sm" autoFocus colorPalette="red" onClick={() => { setAsked(null); asked.act(); }}>{asked.yes}</Button>
      <Button size="sm" variant="outline" onClick={() => setAsked(null)}>No</Button>
    </HStack>
  );
};
