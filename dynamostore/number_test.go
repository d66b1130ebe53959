package dynamostore

import "testing"

func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		digits      string
		floor, ceil int64
	}{
		{"0", 0, 0},
		{"7", 7, 7},
		{"-7", -7, -7},
		{"1700000000.000000001", 1700000000, 1700000001},
		{"1700000000.999999999999999999", 1700000000, 1700000001},
		{"1700000000.0", 1700000000, 1700000000},
		{"-0.5", -1, 0},
		{"-1.5", -2, -1},
		{"0.00000000000000000000000001", 0, 1},
		{"1.5E+3", 1500, 1500},
		{"1.5e-3", 0, 1},
		{"1e126", saturation, saturation},
		{"-1e126", -saturation, -saturation},
		{"99999999999999999999999999999999999999", saturation, saturation},
		{"-99999999999999999999999999999999999999.5", -saturation, -saturation},
		{"9223372036854775807", saturation, saturation},
		{"-9223372036854775808", -saturation, -saturation},
	} {
		floor, err := floorNumber(test.digits)
		if err != nil || floor != test.floor {
			t.Errorf("floorNumber(%s) = %d, %v; want %d", test.digits, floor, err, test.floor)
		}
		ceil, err := ceilNumber(test.digits)
		if err != nil || ceil != test.ceil {
			t.Errorf("ceilNumber(%s) = %d, %v; want %d", test.digits, ceil, err, test.ceil)
		}
	}
	for _, digits := range []string{"", "x", "1.x", "--1", "NaN", "1e"} {
		if n, err := floorNumber(digits); err == nil {
			t.Errorf("floorNumber(%q) = %d, want an error", digits, n)
		}
	}
}

func FuzzFloorNumber(f *testing.F) {
	for _, seed := range []string{"0", "-0.5", "1e126", "9223372036854775807", "1.7E9", "-"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, digits string) {
		floor, err := floorNumber(digits)
		if err != nil {
			return
		}
		ceil, err := ceilNumber(digits)
		if err != nil {
			return // "+1", which DynamoDB does not write
		}
		if floor < -saturation-1 || ceil > saturation+1 || ceil < floor || ceil > floor+1 {
			t.Errorf("%q: floor %d, ceil %d", digits, floor, ceil)
		}
	})
}
