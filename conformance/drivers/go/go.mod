module weir.test/drivers

go 1.25
